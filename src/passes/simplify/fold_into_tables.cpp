// Applies element-wise operators behind a Gather of constant rows to the table of rows ahead of the run: where the
// table is no larger than the gathered rows, and nothing else reads it.
#include <algorithm>
#include <set>

#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/replacements.h"
#include "passes/rewriter.h"
#include "passes/simplify/fold_constants.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

class TableFolder {
 public:
  explicit TableFolder(ir::Graph graph) : graph_(std::move(graph)), uses_(graph_.compute_uses()) {}

  // Returns whether anything changed.
  bool run() {
    return rewrite_each(graph_, [&](NodeId id) { return fold(id); });
  }
  ir::Graph take() { return std::move(graph_); }

 private:
  bool fold(NodeId id) {
    const ir::Node node = graph_.node(id);
    if (!is_element_wise(node)) return false;
    const bool of_two = node.inputs.size() == 2;
    for (std::size_t i = 0; i < (of_two ? 2U : 1U); ++i) {
      const ir::Node* gather = producer_of(graph_, node.inputs[i], "Gather");
      if (gather == nullptr || !is_private_table(*gather) || !is_used_once(node.inputs[i])) continue;
      std::vector<ValueId> inputs = node.inputs;
      inputs[i] = gather->inputs[0];
      if (of_two && !(inputs[1 - i] = row(inputs[1 - i], node.inputs[i], *dims_of(graph_, inputs[i]))).valid())
        continue;
      const ValueId indices = gather->inputs[1], table = graph_.add_op(node.op, inputs, node.attributes);
      ops::infer_node_in_place(graph_, graph_.value(table).producer);
      tables_.insert(table.index);
      put_operator(graph_, id, "Gather", {table, indices}, {{"axis", std::int64_t{0}}});
      return true;
    }
    return false;
  }

  // Whether the node is element-wise on one operand, or on two that broadcast, with a float32 result.
  bool is_element_wise(const ir::Node& node) const {
    const ops::ElementWise kind = ops::op_of(node).element_wise;
    const bool fits = (kind == ops::ElementWise::unary && node.inputs.size() == 1) ||
                      (kind == ops::ElementWise::broadcasting && node.inputs.size() == 2);
    return fits && node.outputs.size() == 1 && node.outputs[0].valid() &&
           graph_.value(node.outputs[0]).type.dtype == DType::f32;
  }

  // Whether the Gather reads a constant float32 matrix, or one that this pass has made, that nothing else reads and
  // that is no larger than the gathered rows, as far as that is known.
  bool is_private_table(const ir::Node& gather) const {
    const auto axis = gather.attributes.find("axis");
    const ValueId table = gather.inputs[0];
    const bool made = tables_.contains(table.index);
    const ir::Dims *dims = dims_of(graph_, table), *results = dims_of(graph_, gather.outputs[0]);
    if ((axis != gather.attributes.end() && std::get<std::int64_t>(axis->second) != 0) ||
        !(made || (graph_.is_constant(table) && is_used_once(table))))
      return false;
    if (graph_.value(table).type.dtype != DType::f32 || dims == nullptr || dims->size() != 2 || results == nullptr)
      return false;
    const auto known = [](const ir::Dims& of) {
      double count = 1;
      for (const ir::Dim& dim : of) count *= dim.is_known() ? static_cast<double>(dim.value()) : 1.0;
      return count;
    };
    return known(*dims) <= known(*results);
  }
  bool is_used_once(ValueId value) const {
    const auto index = static_cast<std::size_t>(value.index);
    return (index >= uses_.size() || uses_[index].size() == 1) && !is_result(graph_, value);
  }

  // The constant as a row of the table or one number, if it applies equally to all gathered rows; else invalid.
  ValueId row(ValueId value, ValueId gathered, const ir::Dims& table) {
    const Tensor* constant = graph_.constant(value);
    if (constant == nullptr || !constant->has_data() || constant->dtype() != DType::f32 ||
        constant->rank() > static_cast<std::int64_t>(dims_of(graph_, gathered)->size()))
      return {};
    const std::int64_t columns = constant->rank() == 0 ? 1 : constant->shape().back();
    if (constant->elements() != columns || (columns != 1 && !table[1].surely_equals(columns))) return {};
    return constant->rank() <= 1 ? value
                                 : graph_.add_constant(Tensor::from<float>({columns}, constant->values<float>()));
  }

  ir::Graph graph_;
  std::vector<std::vector<NodeId>> uses_;
  std::set<std::int32_t> tables_;  // made here
};

}  // namespace

ir::Graph fold_into_tables(ir::Graph graph, const PassContext& context) {
  // A table that is not folded would be computed in every run.
  if (context.leaves_out("fold_constants")) return graph;
  TableFolder folder(std::move(graph));
  const bool changed = folder.run();
  return changed ? fold_all_constants(folder.take(), context) : folder.take();
}

}  // namespace tessera::passes
