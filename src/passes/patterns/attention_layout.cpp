#include "passes/patterns/attention_layout.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "ops/attention/attention.h"
#include "ops/core/builder.h"
#include "ops/core/infer.h"
#include "passes/find.h"

namespace tessera::passes {
namespace {

using ir::Dims;
using ir::NodeId;
using ir::ValueId;
using Permutation = std::vector<std::int64_t>;

constexpr std::size_t kKey = 1, kValue = 2, kMask = 3, kPastKey = 4;
constexpr std::size_t kReplacement = ops::kAttentionReplacement, kSecondMask = ops::kAttentionSecondMask;
// A masked score at or below this contributes nothing to softmax in float32, since scores that are kept differ by far
// less.
constexpr float kForbidding = -1e9f;

enum class MaskKind : std::uint8_t { any, nothing, causal };

// The kind of a mask [queries, keys]. An added mask keeps a score where it is 0; one that replaces scores keeps them
// where it is NaN.
MaskKind kind_of(const float* mask, bool replaces, std::int64_t queries, std::int64_t keys) {
  bool nothing = true, causal = true;
  for (std::int64_t i = 0; i < queries && (nothing || causal); ++i) {
    for (std::int64_t j = 0; j < keys; ++j) {
      const float value = mask[i * keys + j];
      const bool keeps = replaces ? std::isnan(value) : value == 0;
      nothing = nothing && keeps;
      causal = causal && (j <= i ? keeps : value <= kForbidding);
    }
  }
  return nothing ? MaskKind::nothing : causal ? MaskKind::causal : MaskKind::any;
}

class AttentionLayout {
 public:
  explicit AttentionLayout(ir::Graph graph)
      : graph_(std::move(graph)), builder_(graph_), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) {
      const std::string& op = graph_.node(id).op;
      if (op != "Attention" && op != "tessera::AttentionWithDropout") continue;
      name_masks(id);
      take_heads_once(id);
      pack(id);
    }
    if (!changed_) return std::move(graph_);
    graph_.sort_topologically();
    graph_.remove_dead_and_compact();
    return std::move(graph_);
  }

 private:
  const Dims* dims(ValueId value) const { return dims_of(graph_, value); }
  static bool has_input(const ir::Node& node, std::size_t i) {
    return node.inputs.size() > i && node.inputs[i].valid();
  }

  // --- masks
  // A causal mask beside other masks stays unchanged: in a row whose other keys are all masked, its numbers matter.
  void name_masks(NodeId id) {
    ir::Node& node = graph_.node(id);
    constexpr std::size_t kMasks[] = {kSecondMask, kMask, kReplacement};
    for (const std::size_t input : kMasks) {
      if (has_input(node, input) && kind_of_constant(node, input) == MaskKind::nothing) drop(node, input);
    }
    const auto count = std::ranges::count_if(kMasks, [&](std::size_t input) { return has_input(node, input); });
    for (const std::size_t input : kMasks) {
      if (count != 1 || !has_input(node, input) || kind_of_constant(node, input) != MaskKind::causal) continue;
      node.attributes.insert_or_assign("is_causal", std::int64_t{1});
      drop(node, input);
    }
  }
  void drop(ir::Node& node, std::size_t input) {
    node.inputs[input] = ValueId{};
    if (input == kMask && has_input(node, kSecondMask)) std::swap(node.inputs[kMask], node.inputs[kSecondMask]);
    while (!node.inputs.back().valid()) node.inputs.pop_back();
    changed_ = true;
  }

  // Classifies masks over all queries and keys that are the same for every batch and head; each mask once, however many
  // layers use it.
  MaskKind kind_of_constant(const ir::Node& node, std::size_t input) {
    const Tensor* mask = graph_.constant(node.inputs[input]);
    const Dims *query = dims(node.inputs[0]), *key = dims(node.inputs[kKey]);
    if (mask == nullptr || mask->dtype() != DType::f32 || !mask->has_data() || query == nullptr || key == nullptr ||
        query->size() < 3 || key->size() < 3)
      return MaskKind::any;
    const Shape& shape = mask->shape();
    const std::size_t length = query->size() == 4 ? 2 : 1;
    if (shape.size() < 2 || has_input(node, kPastKey)) return MaskKind::any;
    const std::int64_t queries = shape[shape.size() - 2], keys = shape.back();
    if (queries * keys != mask->elements() || !(*query)[length].surely_equals(queries) ||
        !(*key)[length].surely_equals(keys))
      return MaskKind::any;
    const bool replaces = input == kReplacement;
    const auto [entry, is_new] = kinds_.try_emplace({node.inputs[input], replaces}, MaskKind::any);
    if (is_new) entry->second = kind_of(mask->data<float>(), replaces, queries, keys);
    return entry->second;
  }

  // --- heads of K and V that several heads of Q share
  // [batch, heads, length, size] → [batch, heads, 1, length, size] → [batch, heads, group, length, size] → [batch,
  // heads · group, length, size]
  std::optional<ValueId> before_repetition(ValueId value) const {
    const ir::Node* merge = producer_of(graph_, value, "Reshape");
    const ir::Node* repeat = merge == nullptr ? nullptr : producer_of(graph_, merge->inputs[0], "Expand");
    const ir::Node* apart = repeat == nullptr ? nullptr : producer_of(graph_, repeat->inputs[0], "Unsqueeze");
    if (apart == nullptr) return std::nullopt;
    const Dims *from = dims(apart->inputs[0]), *single = dims(apart->outputs[0]), *repeated = dims(repeat->outputs[0]),
               *to = dims(value);
    if (from == nullptr || single == nullptr || repeated == nullptr || to == nullptr || from->size() != 4 ||
        single->size() != 5 || repeated->size() != 5 || to->size() != 4)
      return std::nullopt;
    for (const std::size_t i : {0, 1, 3, 4}) {
      const ir::Dim& dim = (*from)[i < 2 ? i : i - 1];
      if (!dim.surely_equals((*single)[i]) || !dim.surely_equals((*repeated)[i]) ||
          (i != 1 && !dim.surely_equals((*to)[i < 2 ? i : i - 1])))
        return std::nullopt;
    }
    return (*single)[2].surely_equals(1) ? std::optional(apart->inputs[0]) : std::nullopt;
  }

  void take_heads_once(NodeId id) {
    ir::Node& node = graph_.node(id);
    if (has_input(node, kPastKey) || node.outputs.size() > 1) return;
    const std::optional<ValueId> key = before_repetition(node.inputs[kKey]),
                                 value = before_repetition(node.inputs[kValue]);
    if (!key || !value || !(*dims(*key))[1].is_known() || !(*dims(*key))[1].surely_equals((*dims(*value))[1])) return;
    node.inputs[kKey] = *key;
    node.inputs[kValue] = *value;
    changed_ = true;
  }

  // --- heads where they lie
  // A value [batch, heads, length, size] that was transposed from [batch, length, heads, size], with heads and size
  // known; or, where one product computes Q, K and V, one of the parts of [batch, length, parts, heads, size]
  // transposed to parts first.
  struct Split {
    ValueId from;
    std::int64_t heads, size;
    std::int64_t parts = 1, part = 0;
  };
  static bool is_positive(const ir::Dim& dim) { return dim.is_known() && dim.value() > 0; }
  std::optional<Split> split(ValueId value) const {
    if (const ir::Node* transpose = producer_of(graph_, value, "Transpose")) {
      const Dims* from = dims(transpose->inputs[0]);
      if (permutation_of(*transpose, 4) != Permutation{0, 2, 1, 3} || from == nullptr || !is_positive((*from)[2]) ||
          !is_positive((*from)[3]))
        return std::nullopt;
      return Split{transpose->inputs[0], (*from)[2].value(), (*from)[3].value()};
    }
    const std::optional<std::pair<ValueId, std::int64_t>> part = part_of(value);
    const ir::Node* transpose = part ? producer_of(graph_, part->first, "Transpose") : nullptr;
    const Dims* from = transpose == nullptr ? nullptr : dims(transpose->inputs[0]);
    if (from == nullptr || from->size() != 5 || permutation_of(*transpose, 5) != Permutation{2, 0, 3, 1, 4})
      return std::nullopt;
    for (const std::size_t i : {2, 3, 4}) {
      if (!is_positive((*from)[i])) return std::nullopt;
    }
    return Split{transpose->inputs[0], (*from)[3].value(), (*from)[4].value(), (*from)[2].value(), part->second};
  }
  // The value and the index along its first axis of which `value` is the element.
  std::optional<std::pair<ValueId, std::int64_t>> part_of(ValueId value) const {
    const auto integer = [&](const ir::Node& node, std::size_t input) -> std::optional<std::int64_t> {
      const Tensor* constant = has_input(node, input) ? graph_.constant(node.inputs[input]) : nullptr;
      if (constant == nullptr || !constant->has_data() || constant->dtype() != DType::i64 || constant->elements() != 1)
        return std::nullopt;
      return *constant->data<std::int64_t>();
    };
    if (const ir::Node* gather = producer_of(graph_, value, "Gather")) {
      const auto axis = gather->attributes.find("axis");
      const Tensor* index = graph_.constant(gather->inputs[1]);
      const bool first = axis == gather->attributes.end() || std::get<std::int64_t>(axis->second) == 0;
      const std::optional<std::int64_t> at =
          first && index != nullptr && index->shape().empty() ? integer(*gather, 1) : std::nullopt;
      return at && *at >= 0 ? std::optional(std::pair(gather->inputs[0], *at)) : std::nullopt;
    }
    const ir::Node* squeeze = producer_of(graph_, value, "Squeeze");
    if (squeeze == nullptr || integer(*squeeze, 1) != 0) return std::nullopt;
    const ValueId row = squeeze->inputs[0];
    if (const ir::Node* slice = producer_of(graph_, row, "Slice")) {
      const std::optional<std::int64_t> begin = integer(*slice, 1), axis = integer(*slice, 3);
      const bool along_first = axis == 0 && begin && *begin >= 0 && (!has_input(*slice, 4) || integer(*slice, 4) == 1);
      return along_first ? std::optional(std::pair(slice->inputs[0], *begin)) : std::nullopt;
    }
    const ir::Node* parts = producer_of(graph_, row, "Split");
    const Dims* whole = parts == nullptr ? nullptr : dims(parts->inputs[0]);
    if (whole == nullptr || !(*whole)[0].surely_equals(static_cast<std::int64_t>(parts->outputs.size())))
      return std::nullopt;
    const auto axis = parts->attributes.find("axis");
    if (axis != parts->attributes.end() && std::get<std::int64_t>(axis->second) != 0) return std::nullopt;
    return std::pair(parts->inputs[0], static_cast<std::int64_t>(graph_.value(row).output_index));
  }
  // The packed form of the split: [batch, length, heads · size].
  ValueId packed(const Split& split) {
    const Dims apart = *dims(split.from);
    const std::int64_t width = split.heads * split.size, all = split.parts * width;
    const ir::Node* reshape = producer_of(graph_, split.from, "Reshape");
    const Dims* from = reshape == nullptr ? nullptr : dims(reshape->inputs[0]);
    const bool undone = from != nullptr && from->size() == 3 && (*from)[0].surely_equals(apart[0]) &&
                        (*from)[1].surely_equals(apart[1]) && (*from)[2].surely_equals(all);
    const ValueId whole =
        undone ? reshape->inputs[0] : builder_.add("Reshape", {split.from, builder_.integers({0, 0, all})});
    if (split.parts == 1) return whole;
    return builder_.add("Slice", {whole, builder_.integers({split.part * width}),
                                  builder_.integers({(split.part + 1) * width}), builder_.integers({2})});
  }
  // The only node that uses the value.
  std::optional<NodeId> follower(ValueId value, std::string_view op) const {
    const auto index = static_cast<std::size_t>(value.index);
    if (index >= uses_.size() || uses_[index].size() != 1 || is_result(graph_, value)) return std::nullopt;
    return graph_.node(uses_[index][0]).op == op ? std::optional(uses_[index][0]) : std::nullopt;
  }

  void pack(NodeId id) {
    ir::Node node = graph_.node(id);
    const std::optional<Split> query = split(node.inputs[0]), key = split(node.inputs[kKey]),
                               value = split(node.inputs[kValue]);
    if (!query || !key || !value || !node.outputs[0].valid()) return;
    const std::int64_t heads = query->heads, size = value->size;
    node.attributes.insert_or_assign("q_num_heads", heads);
    node.attributes.insert_or_assign("kv_num_heads", key->heads);
    node.inputs[0] = packed(*query);
    node.inputs[kKey] = packed(*key);
    node.inputs[kValue] = packed(*value);
    changed_ = true;
    const ValueId result = node.outputs[0];
    const std::optional<NodeId> transpose = follower(result, "Transpose");
    const bool merges = transpose && permutation_of(graph_.node(*transpose), 4) == Permutation{0, 2, 1, 3};
    const ValueId last = merges ? graph_.node(*transpose).outputs[0] : ValueId{};
    const std::optional<NodeId> reshape = merges ? follower(last, "Reshape") : std::nullopt;
    graph_.remove_node(id);
    if (reshape && is_merged(graph_.node(*reshape), last, heads * size)) {
      node.outputs[0] = graph_.node(*reshape).outputs[0];
      graph_.remove_node(*reshape);
      graph_.remove_node(*transpose);
      ops::infer_node_in_place(graph_, graph_.add_node(std::move(node)));
      return;
    }
    node.outputs[0] = graph_.add_value("");
    const ValueId whole = node.outputs[0];
    ops::infer_node_in_place(graph_, graph_.add_node(std::move(node)));
    ir::Node split{"Reshape", "", {whole, builder_.integers({0, 0, heads, size})}, {last}, {}, 0};
    if (merges) return graph_.replace_node(*transpose, std::move(split));
    const ValueId heads_last = builder_.add("Reshape", split.inputs);
    graph_.add_node({"Transpose", "", {heads_last}, {result}, {{"perm", Permutation{0, 2, 1, 3}}}, 0});
  }

  // Whether a Reshape of [batch, length, heads, size] makes [batch, length, width] of it.
  bool is_merged(const ir::Node& reshape, ValueId from, std::int64_t width) const {
    const Dims *apart = dims(from), *merged = dims(reshape.outputs[0]);
    return reshape.inputs[0] == from && apart != nullptr && merged != nullptr && merged->size() == 3 &&
           (*merged)[0].surely_equals((*apart)[0]) && (*merged)[1].surely_equals((*apart)[1]) &&
           (*merged)[2].surely_equals(width);
  }

  ir::Graph graph_;
  ops::GraphBuilder builder_;
  std::vector<std::vector<NodeId>> uses_;
  std::map<std::pair<ValueId, bool>, MaskKind> kinds_;
  bool changed_ = false;
};

}  // namespace

ir::Graph lay_out_attention(ir::Graph graph) {
  return AttentionLayout(std::move(graph)).run();
}

}  // namespace tessera::passes
