#include "compress/core/class_axis.h"

#include <algorithm>
#include <set>

#include "compress/core/graph_facts.h"
#include "ops/op_table.h"
#include "passes/find.h"

namespace tessera::compress {
namespace {

// Whether the result has the axes of its operand, in the same places.
bool keeps_axes(const ir::Graph& graph, const ir::Node& node) {
  const ops::OpDef* op = ops::find_op(node.op);
  const bool keeps = op != nullptr && (op->element_wise != ops::ElementWise::no || node.op == "Resize" ||
                                       passes::has_trait(node, ops::Trait::moves));
  return keeps && node.op != "Reshape" && !node.inputs.empty() &&
         rank_of(graph, node.inputs[0]) == rank_of(graph, node.outputs[0]);
}

// `seen` holds the values that were visited already.
std::optional<std::size_t> told_axis(const ir::Graph& graph, ir::ValueId value, std::set<ir::ValueId>& seen) {
  if (!seen.insert(value).second || graph.value(value).origin != ir::Origin::node) return std::nullopt;
  const ir::Node& node = graph.node(graph.value(value).producer);
  const std::size_t rank = rank_of(graph, value);
  if (node.op == "Softmax" || node.op == "LogSoftmax") return axis_at(passes::integer_of(node, "axis", -1), rank);
  if (node.op == "Conv" || node.op == "ConvTranspose") return 1;
  if (node.op == "MatMul" || node.op == "Gemm") return rank - 1;
  if (node.op == "Transpose") {
    const std::optional<std::size_t> before = told_axis(graph, node.inputs[0], seen);
    if (!before) return std::nullopt;
    const std::vector<std::int64_t> permutation = passes::permutation_of(node, rank);
    return static_cast<std::size_t>(std::ranges::find(permutation, static_cast<std::int64_t>(*before)) -
                                    permutation.begin());
  }
  if (!keeps_axes(graph, node)) return std::nullopt;
  for (const ir::ValueId input : node.inputs) {
    if (!input.valid() || graph.is_constant(input) || rank_of(graph, input) != rank) continue;
    if (const std::optional<std::size_t> axis = told_axis(graph, input, seen)) return axis;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> class_axis(const ir::Graph& graph, ir::ValueId value) {
  constexpr std::size_t kOfImages = 4;
  const std::size_t rank = rank_of(graph, value);
  if (rank < 2) return std::nullopt;
  std::set<ir::ValueId> seen;
  if (const std::optional<std::size_t> axis = told_axis(graph, value, seen); axis && *axis < rank) return axis;
  return rank >= kOfImages ? 1 : rank - 1;
}

}  // namespace tessera::compress
