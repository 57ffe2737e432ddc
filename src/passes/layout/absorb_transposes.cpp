// Folds transposes of a product's operands into the product, where the device can read operands in either order. Runs
// after shapes are known and attention, of which such transposes may be a part, has been fused.
#include <numeric>

#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/linear_form.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

bool swaps_last_axes(const ir::Graph& graph, const ir::Node& transpose) {
  const ir::Dims* dims = dims_of(graph, transpose.inputs[0]);
  if (dims == nullptr || dims->size() < 2 || !ir::to_shape(*dims)) return false;
  std::vector<std::int64_t> swapped(dims->size());
  std::iota(swapped.begin(), swapped.end(), std::int64_t{0});
  std::swap(swapped.end()[-1], swapped.end()[-2]);
  return permutation_of(transpose, dims->size()) == swapped;
}

}  // namespace

ir::Graph absorb_transposes(ir::Graph graph, const PassContext& context) {
  const std::vector<std::vector<NodeId>> uses = graph.compute_uses();
  rewrite_each(graph, [&](NodeId id) {
    // A product with constant weights can fuse more than transposes (fuse_epilogues.cpp).
    ir::Node product = graph.node(id);
    if (product.op != "MatMul" || (graph.is_constant(product.inputs[1]) && as_linear(graph, product))) return false;
    product.op = "tessera::TransposedMatMul";
    for (std::size_t i = 0; i < 2; ++i) {
      const ValueId operand = product.inputs[i];
      const ir::Node* transpose = producer_of(graph, operand, "Transpose");
      if (transpose == nullptr || is_result(graph, operand) || !swaps_last_axes(graph, *transpose)) continue;
      // Weights that fold_constants left untransposed are read by products only.
      if (!graph.is_constant(transpose->inputs[0]) && uses[static_cast<std::size_t>(operand.index)].size() != 1)
        continue;
      product.inputs[i] = transpose->inputs[0];
      product.attributes.emplace(i == 0 ? "transA" : "transB", std::int64_t{1});
    }
    if (product.attributes.empty() || !context.keeps_composite || !context.keeps_composite(graph, product))
      return false;
    graph.replace_node(id, std::move(product));
    return true;
  });
  return graph;
}

}  // namespace tessera::passes
