// Fuses the LayerNormalization of a sum of embeddings into EmbedLayerNormalization, which reads each row from its table
// and writes the result once. The embeddings are rows of tables selected by the tokens of [batch, length] and by their
// positions. Positions are given by ids, by counting, or their rows are a constant.
#include <algorithm>
#include <optional>

#include "ops/core/builder.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::Dims;
using ir::NodeId;
using ir::ValueId;

// Rows of a table; without ids, row i belongs to position i.
struct Embedding {
  ValueId table, ids;
};

class EmbeddingFuser {
 public:
  EmbeddingFuser(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), context_(context), builder_(graph_), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    if (!context_.keeps_composite) return std::move(graph_);
    rewrite_each(graph_, [&](NodeId id) { return graph_.node(id).op == "LayerNormalization" && fuse(id); });
    return std::move(graph_);
  }

 private:
  const Dims* dims(ValueId value) const { return dims_of(graph_, value); }
  bool has_other_uses(ValueId value) const {
    return is_result(graph_, value) || uses_[static_cast<std::size_t>(value.index)].size() > 1;
  }

  // Appends the terms of a nested sum; inner sums that others use count as terms.
  void add_terms(ValueId value, std::vector<ValueId>& terms) const {
    const ir::Node* add = producer_of(graph_, value, "Add");
    if (add == nullptr || terms.size() > 3) return terms.push_back(value);
    for (const ValueId operand : add->inputs) {
      if (has_other_uses(operand)) terms.push_back(operand);
      else add_terms(operand, terms);
    }
  }

  // Rows that ids select.
  std::optional<Embedding> looked_up(ValueId value) const {
    const ir::Node* gather = producer_of(graph_, value, "Gather");
    if (gather == nullptr || dims(gather->inputs[0]) == nullptr || dims(gather->inputs[0])->size() != 2 ||
        dims(gather->inputs[1]) == nullptr)
      return std::nullopt;
    const auto axis = gather->attributes.find("axis");
    const bool rows = axis == gather->attributes.end() || std::get<std::int64_t>(axis->second) == 0;
    return rows && graph_.is_constant(gather->inputs[0])
               ? std::optional(Embedding{gather->inputs[0], gather->inputs[1]})
               : std::nullopt;
  }

  bool by_tokens(const Embedding& found, const Dims& result) const {
    const Dims& ids = *dims(found.ids);
    return ids.size() == 2 && ids[0].surely_equals(result[0]) && ids[1].surely_equals(result[1]);
  }

  // Rows by position, the same in every sequence of a batch.
  std::optional<Embedding> by_places(ValueId value, const Dims& result) {
    const std::optional<Embedding> found = looked_up(value);
    if (!found) return constant_rows(value, result);
    const Dims& ids = *dims(found->ids);
    const bool one_sequence = ids.size() == 1 || (ids.size() == 2 && ids[0].surely_equals(1));
    if (!one_sequence || !ids.back().surely_equals(result[1])) return std::nullopt;
    if (is_counting(found->ids)) return Embedding{found->table, {}};
    return ids.size() == 2 ? found
                           : Embedding{found->table, builder_.add("Unsqueeze", {found->ids, builder_.integers({0})})};
  }
  // Whether the ids are 0, 1 …
  bool is_counting(ValueId ids) const {
    const ir::Node* range = producer_of(graph_, ids, "Range");
    return range != nullptr && scalar_of(graph_, range->inputs[0]) == 0.0 && scalar_of(graph_, range->inputs[2]) == 1.0;
  }
  std::optional<Embedding> constant_rows(ValueId value, const Dims& result) {
    const Tensor* rows = graph_.constant(value);
    if (rows == nullptr || !rows->has_data() || rows->dtype() != DType::f32) return std::nullopt;
    const Shape& shape = rows->shape();
    if (shape.size() < 2 || shape.size() > 3 || (shape.size() == 3 && shape[0] != 1)) return std::nullopt;
    const Shape table(shape.end() - 2, shape.end());
    if (!result[1].surely_equals(table[0]) || !result[2].surely_equals(table[1])) return std::nullopt;
    return Embedding{shape.size() == 2 ? value : graph_.add_constant(Tensor::from<float>(table, rows->values<float>())),
                     {}};
  }

  bool fuse(NodeId id) {
    const ir::Node node = graph_.node(id);
    const ValueId sum = node.inputs[0];
    std::vector<ValueId> terms;
    if (producer_of(graph_, sum, "Add") == nullptr || dims(sum) == nullptr || dims(sum)->size() != 3 ||
        !normalises_rows(graph_, node))
      return false;
    add_terms(sum, terms);
    if (terms.size() < 2 || terms.size() > 3) return false;
    const Dims result = *dims(sum);
    std::vector<Embedding> tokens;
    std::optional<Embedding> places;
    for (const ValueId term : terms) {
      const std::optional<Embedding> found = looked_up(term);
      if (found && !is_as_wide(found->table, result)) return false;
      if (found && by_tokens(*found, result)) tokens.push_back(*found);
      else if (places || !(places = by_places(term, result))) return false;
    }
    if (!places && tokens.size() > 1) places = tokens.back(), tokens.pop_back();
    if (!places || tokens.empty() || !is_as_wide(places->table, result)) return false;
    return place(id, node, tokens, *places);
  }

  // Whether the table is as wide as the result; a sum would broadcast a single column.
  bool is_as_wide(ValueId table, const Dims& result) const {
    return dims(table) != nullptr && dims(table)->size() == 2 && dims(table)->back().surely_equals(result[2]);
  }

  bool place(NodeId id, const ir::Node& node, const std::vector<Embedding>& tokens, const Embedding& places) {
    const ValueId sum = node.inputs[0];
    const auto epsilon = node.attributes.find("epsilon");
    const ValueId shift = node.inputs.size() > 2 && node.inputs[2].valid()
                              ? node.inputs[2]
                              : zeros(graph_.constant(node.inputs[1])->shape());
    const bool segments = tokens.size() > 1;
    ir::Node fused{"com.microsoft::EmbedLayerNormalization",
                   node.name,
                   {tokens[0].ids, segments ? tokens[1].ids : ValueId(), tokens[0].table, places.table,
                    segments ? tokens[1].table : ValueId(), node.inputs[1], shift, ValueId(), places.ids},
                   {node.outputs[0]},
                   {{"epsilon", epsilon == node.attributes.end() ? 1e-5f : std::get<float>(epsilon->second)}},
                   0};
    if (!places.ids.valid()) fused.inputs.resize(7);
    const DType type = graph_.value(tokens[0].ids).type.dtype;
    const bool one_type = std::ranges::all_of(fused.inputs, [&](ValueId input) {
      return !input.valid() || graph_.value(input).type.dtype == DType::f32 || graph_.value(input).type.dtype == type;
    });
    if (!one_type) return false;
    const bool wants_sum = has_other_uses(sum);
    if (wants_sum) fused.outputs.insert(fused.outputs.end(), {ValueId(), sum});
    if (!context_.keeps_composite(graph_, fused)) return false;
    if (wants_sum) graph_.remove_node(graph_.value(sum).producer);
    graph_.replace_node(id, std::move(fused));
    return true;
  }

  ValueId zeros(const Shape& shape) {
    Tensor tensor(DType::f32, shape);
    std::fill_n(tensor.mutable_data<float>(), tensor.elements(), 0.0f);
    return graph_.add_constant(std::move(tensor));
  }

  ir::Graph graph_;
  const PassContext& context_;
  ops::GraphBuilder builder_;
  std::vector<std::vector<NodeId>> uses_;
};

}  // namespace

ir::Graph fuse_embeddings(ir::Graph graph, const PassContext& context) {
  return EmbeddingFuser(std::move(graph), context).run();
}

}  // namespace tessera::passes
