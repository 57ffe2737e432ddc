// Length: one pattern, whose parts share the graph under change and what was made for other layers.
// Fuses attention written as softmax(scale Q K' + mask) V into one Attention node, which never stores the scores. Where
// transposes split heads off and merge them, the node reads and writes the heads in place; a causal mask becomes an
// attribute.
//
// Masks keep their exact meaning. Where(condition, number, scores) replaces scores, so that a row whose keys are all
// masked gets equal weights, and no gradient reaches these scores; Add(scores, mask) keeps the part of the scores that
// survives rounding in float32 beside the mask. The node distinguishes the two (`replacement` and `second_mask` in
// ops/attention/attention.h), and a row of only -infinity gives NaN, as Softmax does (`nan_rows`).
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "ops/attention/attention.h"
#include "ops/core/builder.h"
#include "ops/values/random_streams.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/attention_layout.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::Dim;
using ir::Dims;
using ir::NodeId;
using ir::ValueId;
using Permutation = std::vector<std::int64_t>;

// From so many queries on, transposing the keys costs little compared with the scores.
constexpr std::int64_t kManyQueries = 32;
// The most steps between the product and softmax; models have five.
constexpr int kMostSteps = 16;

// The effect of a mask on scores: either it is added to them, or it is a condition that selects between scores and a
// number.
struct Mask {
  ValueId value;
  bool is_condition = false, keeps = true;  // `keeps`: scores stay where the condition is true, else where it is false
  double number = 0;
};

// Scores before softmax: softcap · tanh(scale · Q·keys / softcap), then one mask after the other.
struct Scores {
  ValueId query, keys;  // [..., queries, size] and [..., size, keys]
  ValueId product;      // [..., queries, keys]
  double scale = 1;
  double softcap = 0;
  std::vector<Mask> masks;
};

// The operand of softmax, and whether NaN weights are replaced by zeros.
struct SoftmaxOperand {
  ValueId scores;
  bool is_guarded = false;
};

// The masks as inputs of the node; invalid where it has none.
struct MaskInputs {
  ValueId mask, second_mask, replacement;
};

// Dropout between softmax and the values.
struct DroppedWeights {
  ValueId weights;
  float ratio = 0;
  std::optional<std::int64_t> seed, stream;  // attributes of the Dropout
};

class AttentionFuser {
 public:
  AttentionFuser(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), context_(context), builder_(graph_), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    rewrite_each(graph_, [&](NodeId id) { return graph_.node(id).op == "MatMul" && fuse(id); });
    return std::move(graph_);
  }

 private:
  // --- looking
  const ir::Node* producer(ValueId value, std::string_view op) const { return producer_of(graph_, value, op); }
  const Dims* dims(ValueId value) const { return dims_of(graph_, value); }
  std::optional<double> number(ValueId value) const { return number_of(graph_, value); }
  std::size_t use_count(ValueId value) const {
    const auto index = static_cast<std::size_t>(value.index);
    return (index < uses_.size() ? uses_[index].size() : 0) + (is_result(graph_, value) ? 1 : 0);
  }
  // The node that produces the value, if nothing else uses the value.
  const ir::Node* maker(ValueId value, std::string_view op) const {
    const ir::Node* node = producer(value, op);
    return node != nullptr && use_count(value) == 1 ? node : nullptr;
  }
  // For a product with a number, or a quotient by one: the other operand, and the factor.
  std::optional<std::pair<ValueId, double>> scaled(const ir::Node& node) const {
    const bool product = node.op == "Mul";
    if (!product && node.op != "Div") return std::nullopt;
    for (std::size_t i = 0; i < (product ? 2 : 1); ++i) {
      const std::optional<double> factor = number(node.inputs[1 - i]);
      if (!factor || !std::isfinite(*factor) || (!product && *factor == 0) ||
          !same_rank(node.inputs[i], node.outputs[0]))
        continue;
      return std::pair(node.inputs[i], product ? *factor : 1 / *factor);
    }
    return std::nullopt;
  }
  bool same_rank(ValueId a, ValueId b) const {
    return dims(a) != nullptr && dims(b) != nullptr && dims(a)->size() == dims(b)->size();
  }

  // Whether the mask, added to scores of that shape, keeps the shape, with one element per key.
  bool is_mask(ValueId mask, const Dims& scores) const {
    const Dims* have = dims(mask);
    if (have == nullptr || have->empty() || have->size() > scores.size() || !have->back().surely_equals(scores.back()))
      return false;
    for (std::size_t i = 1; i < have->size(); ++i) {
      const Dim& dim = (*have)[have->size() - 1 - i];
      if (!dim.surely_equals(1) && !dim.surely_equals(scores[scores.size() - 1 - i])) return false;
    }
    return true;
  }

  // --- the scores
  std::optional<Scores> scores(ValueId value, int step = 0) const {
    if (dims(value) == nullptr || step > kMostSteps) return std::nullopt;
    if (const ir::Node* product = maker(value, "MatMul"))
      return Scores{.query = product->inputs[0], .keys = product->inputs[1], .product = value};
    if (const ir::Node* add = maker(value, "Add")) {
      for (std::size_t i = 0; i < 2; ++i) {
        std::optional<Scores> found = scores(add->inputs[i], step + 1);
        if (found && masked(*found, add->inputs[1 - i])) return found;
      }
      return std::nullopt;
    }
    if (const ir::Node* where = maker(value, "Where")) return chosen(*where, step);
    for (const std::string_view op : {"Mul", "Div"}) {
      const ir::Node* node = maker(value, op);
      const auto factor = node == nullptr ? std::nullopt : scaled(*node);
      if (!factor) continue;
      if (const ir::Node* bounded = maker(factor->first, "Tanh")) return capped(*bounded, factor->second, step);
      std::optional<Scores> found = scores(factor->first, step + 1);
      if (!found || !found->masks.empty() || found->softcap != 0) return std::nullopt;
      found->scale *= factor->second;
      return found;
    }
    return std::nullopt;
  }

  bool masked(Scores& scores, ValueId mask) const {
    if (number(mask) == 0.0) return dims(mask) != nullptr && dims(mask)->size() <= dims(scores.product)->size();
    if (!is_mask(mask, *dims(scores.product))) return false;
    scores.masks.push_back({mask});
    return true;
  }

  // The scores of a Where that selects between scores and a number.
  std::optional<Scores> chosen(const ir::Node& where, int step) const {
    for (const std::size_t i : {1, 2}) {
      const std::optional<double> other = number(where.inputs[3 - i]);
      if (!other || std::isnan(*other)) continue;
      std::optional<Scores> found = scores(where.inputs[i], step + 1);
      if (!found || !is_mask(where.inputs[0], *dims(found->product)) || !same_rank(where.outputs[0], found->product))
        continue;
      found->masks.push_back({where.inputs[0], true, i == 1, *other});
      return found;
    }
    return std::nullopt;
  }

  // cap · tanh(x / cap)
  std::optional<Scores> capped(const ir::Node& tanh, double cap, int step) const {
    std::optional<Scores> found = scores(tanh.inputs[0], step + 1);
    if (!found || !found->masks.empty() || found->softcap != 0 || cap <= 0) return std::nullopt;
    found->softcap = cap;
    found->scale *= cap;
    return found;
  }

  // The operand of the softmax that gives these weights, possibly guarded by a Where that replaces NaN by zero.
  std::optional<SoftmaxOperand> softmax_operand(ValueId weights) const {
    const ir::Node* softmax = maker(weights, "Softmax");
    bool is_guarded = false;
    if (const ir::Node* where = maker(weights, "Where")) {
      const ValueId kept = where->inputs[2];
      const ir::Node* guard = maker(where->inputs[0], "IsNaN");
      if (guard != nullptr && guard->inputs[0] == kept && number(where->inputs[1]) == 0.0 && use_count(kept) == 2)
        softmax = producer(kept, "Softmax");
      is_guarded = softmax != nullptr;
    }
    const Dims* shape = dims(weights);
    if (softmax == nullptr || shape == nullptr || graph_.value(weights).type.dtype != DType::f32) return std::nullopt;
    const auto axis = softmax->attributes.find("axis");
    const std::int64_t given = axis == softmax->attributes.end() ? -1 : std::get<std::int64_t>(axis->second);
    if (given != -1 && given != static_cast<std::int64_t>(shape->size()) - 1) return std::nullopt;
    return SoftmaxOperand{softmax->inputs[0], is_guarded};
  }

  // The operand and ratio of the training Dropout that gives the value, or nothing.
  std::optional<DroppedWeights> dropped(ValueId value) const {
    const ir::Node* node = maker(value, "Dropout");
    if (node == nullptr || node->inputs.size() < 3 || !node->inputs[2].valid()) return std::nullopt;
    const bool wants_mask = node->outputs.size() > 1 && node->outputs[1].valid() && use_count(node->outputs[1]) > 0;
    const Tensor* trains = graph_.constant(node->inputs[2]);
    const std::optional<double> ratio = node->inputs[1].valid() ? number(node->inputs[1]) : std::optional(0.5);
    if (wants_mask || trains == nullptr || trains->dtype() != DType::boolean || !trains->data<bool>()[0] || !ratio ||
        !(*ratio > 0 && *ratio < 1))
      return std::nullopt;
    DroppedWeights found{node->inputs[0], static_cast<float>(*ratio), std::nullopt, std::nullopt};
    if (const auto seed = node->attributes.find("seed"); seed != node->attributes.end())
      found.seed = std::get<std::int64_t>(seed->second);
    if (const auto stream = node->attributes.find(ops::kStream); stream != node->attributes.end())
      found.stream = std::get<std::int64_t>(stream->second);
    return found;
  }

  // Whether the mask is computed from a possible weight: its gradient may be needed then, which attention with dropout
  // does not have.
  bool may_be_trained(ValueId value) const {
    std::vector<ValueId> open{value};
    std::vector<bool> seen(graph_.value_count());
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      if (!id.valid() || seen[static_cast<std::size_t>(id.index)]) continue;
      seen[static_cast<std::size_t>(id.index)] = true;
      const ir::ValueInfo& info = graph_.value(id);
      if (!info.type.is_tensor() || !is_float(info.type.dtype)) continue;
      if (const Tensor* constant = graph_.constant(id)) {
        if (constant->rank() > 0 && !forbids(*constant)) return true;
      } else if (info.origin == ir::Origin::node) {
        const ir::Node& node = graph_.node(info.producer);
        open.insert(open.end(), node.inputs.begin(), node.inputs.end());
      } else if (info.origin != ir::Origin::input) {
        return true;
      }
    }
    return false;
  }
  // Whether the constant is a mask and not a weight (train/net/untrained.h).
  static bool forbids(const Tensor& constant) {
    constexpr float kLowest = -1e4f;
    if (constant.dtype() != DType::f32 || !constant.has_data()) return false;
    const float* numbers = constant.data<float>();
    return std::any_of(numbers, numbers + constant.elements(), [](float each) { return each <= kLowest; });
  }

  // --- the operands
  void unscale(ValueId& value, double& scale) const {
    while (true) {
      const ir::Node* node = producer(value, "Mul");
      if (node == nullptr) node = producer(value, "Div");
      if (node == nullptr) node = producer(value, "Add");
      if (node == nullptr) return;
      if (node->op == "Add") {  // of nothing
        const std::size_t zero = number(node->inputs[1]) == 0.0 ? 1 : 0;
        if (number(node->inputs[zero]) != 0.0 || !same_rank(node->inputs[1 - zero], value)) return;
        value = node->inputs[1 - zero];
        continue;
      }
      const auto factor = scaled(*node);
      if (!factor) return;
      value = factor->first;
      scale *= factor->second;
    }
  }

  // Keys [..., size, keys] as [..., keys, size]: the operand of the Transpose that made them, or a new Transpose.
  std::optional<ValueId> turned(ValueId keys, double& scale, const Dim& queries) {
    unscale(keys, scale);
    const std::size_t rank = dims(keys)->size();
    if (const ir::Node* transpose = producer(keys, "Transpose")) {
      Permutation permutation = permutation_of(*transpose, rank);
      std::swap(permutation[rank - 2], permutation[rank - 1]);
      ValueId from = transpose->inputs[0];
      if (!std::is_sorted(permutation.begin(), permutation.end()))
        from = builder_.add("Transpose", {from}, {{"perm", permutation}});
      else unscale(from, scale);
      return from;
    }
    if (const std::optional<ValueId> before = transposed_in_batches(graph_, keys)) {
      ValueId from = *before;
      unscale(from, scale);
      return from;
    }
    context_.note_threshold(kManyQueries);
    if (!queries.is_known() || queries.value() < kManyQueries) return std::nullopt;
    Permutation permutation(rank);
    for (std::size_t i = 0; i < rank; ++i) permutation[i] = static_cast<std::int64_t>(i);
    std::swap(permutation[rank - 2], permutation[rank - 1]);
    return builder_.add("Transpose", {keys}, {{"perm", permutation}});
  }

  // --- the masks. Layers that share what they are made of share them.
  // The numbers that replace scores: the mask's number where it applies, else those of earlier masks, or NaN.
  ValueId replaced(const Mask& mask, ValueId before) {
    ValueId& made = replacements_[{mask.value, mask.keeps, mask.number, before}];
    if (made.valid()) return made;
    const ValueId kept = before.valid() ? before : builder_.scalar(std::numeric_limits<double>::quiet_NaN()),
                  number = builder_.scalar(mask.number);
    return made = builder_.add("Where", {mask.value, mask.keeps ? kept : number, mask.keeps ? number : kept});
  }
  ValueId sum_of(ValueId a, ValueId b) {
    ValueId& made = sums_[{a, b}];
    return made.valid() ? made : made = builder_.add("Add", {a, b});
  }
  // Nothing where more than two masks are added: their rounded sum may differ from adding them one after the other.
  std::optional<MaskInputs> mask_inputs(const std::vector<Mask>& masks) {
    if (std::ranges::count_if(masks, [](const Mask& mask) { return !mask.is_condition; }) > 2) return std::nullopt;
    MaskInputs inputs;
    for (const Mask& mask : masks) {
      if (mask.is_condition) {
        inputs.replacement = replaced(mask, inputs.replacement);
        continue;
      }
      (inputs.mask.valid() ? inputs.second_mask : inputs.mask) = mask.value;
      if (inputs.replacement.valid()) inputs.replacement = sum_of(inputs.replacement, mask.value);
    }
    return inputs;
  }

  // --- the node
  bool fuse(NodeId id) {
    const ir::Node outer = graph_.node(id);
    const std::optional<DroppedWeights> drops = dropped(outer.inputs[0]);
    const std::optional<SoftmaxOperand> operand = softmax_operand(drops ? drops->weights : outer.inputs[0]);
    std::optional<Scores> found = operand ? scores(operand->scores) : std::nullopt;
    if (!found) return false;
    if (drops && (found->softcap != 0 || std::ranges::any_of(found->masks, [&](const Mask& mask) {
                    return !mask.is_condition && may_be_trained(mask.value);
                  })))
      return false;
    const ValueId value = outer.inputs[1];
    const Dims *q = dims(found->query), *k = dims(found->keys), *v = dims(value), *product = dims(found->product);
    if (q == nullptr || k == nullptr || v == nullptr || product == nullptr) return false;
    const std::size_t rank = q->size();
    if (rank < 2 || rank > 4 || k->size() != rank || v->size() != rank || product->size() != rank ||
        graph_.value(value).type.dtype != DType::f32)
      return false;
    for (std::size_t i = 0; i + 2 < rank; ++i) {
      if (!(*q)[i].surely_equals((*k)[i]) || !(*q)[i].surely_equals((*v)[i])) return false;
    }
    const Dim queries = (*q)[rank - 2];
    ir::Node node{"Attention", outer.name, {}, outer.outputs, {}, 0};
    unscale(found->query, found->scale);
    const std::optional<ValueId> keys = turned(found->keys, found->scale, queries);
    const std::optional<MaskInputs> masks = mask_inputs(found->masks);
    if (!keys || !masks) return false;
    node.inputs = {found->query, *keys, value};
    for (ValueId& input : node.inputs) input = with_rank_4(input, rank);
    node.inputs.insert(node.inputs.end(), {masks->mask, {}, {}, {}, masks->replacement, masks->second_mask});
    while (!node.inputs.back().valid()) node.inputs.pop_back();
    const ops::NanRows nan_rows = operand->is_guarded ? ops::NanRows::zeros : ops::NanRows::propagate;
    node.attributes.emplace("nan_rows", static_cast<std::int64_t>(nan_rows));
    node.attributes.emplace("scale", static_cast<float>(found->scale));
    if (drops) {
      node.op = "tessera::AttentionWithDropout";
      node.attributes.emplace("dropout", drops->ratio);
      if (drops->seed) node.attributes.emplace("seed", *drops->seed);
      if (drops->stream) node.attributes.emplace(std::string(ops::kStream), *drops->stream);
    }
    if (found->softcap != 0) node.attributes.emplace("softcap", static_cast<float>(found->softcap));
    if (!context_.keeps_composite || !context_.keeps_composite(graph_, node)) return false;
    place(id, std::move(node), rank);
    return true;
  }

  ValueId with_rank_4(ValueId value, std::size_t rank) {
    if (rank == 4) return value;
    return builder_.add("Unsqueeze", {value, builder_.integers(rank == 3 ? Permutation{0} : Permutation{0, 1})});
  }

  void place(NodeId id, ir::Node node, std::size_t rank) {
    if (rank == 4) return graph_.replace_node(id, std::move(node));
    const std::vector<ValueId> result = node.outputs;
    const ValueId whole = builder_.add_multi(node.op, node.inputs, 1, node.attributes)[0];
    graph_.replace_node(id, ir::Node{"Squeeze",
                                     node.name,
                                     {whole, builder_.integers(rank == 3 ? Permutation{0} : Permutation{0, 1})},
                                     result,
                                     {},
                                     0});
  }

  ir::Graph graph_;
  const PassContext& context_;
  ops::GraphBuilder builder_;
  std::vector<std::vector<NodeId>> uses_;
  std::map<std::tuple<ValueId, bool, double, ValueId>, ValueId> replacements_;
  std::map<std::pair<ValueId, ValueId>, ValueId> sums_;
};

}  // namespace

ir::Graph fuse_attention(ir::Graph graph, const PassContext& context) {
  return lay_out_attention(AttentionFuser(std::move(graph), context).run());
}

}  // namespace tessera::passes
