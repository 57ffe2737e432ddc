// Marks products whose constant weights are dense. Otherwise kernels for sparse weights would have to look at the
// weights at every start; for a package, whose kernels have packed weights, that would read parts of the file that
// nothing else needs.
#include "ops/products/linear.h"
#include "passes/pass.h"

namespace tessera::passes {

ir::Graph note_dense_weights(ir::Graph graph, const PassContext&) {
  for (const ir::NodeId id : graph.order()) {
    ir::Node& node = graph.node(id);
    if (node.op != "tessera::Linear") continue;
    const Tensor* const weights = node.inputs[1].valid() ? graph.constant(node.inputs[1]) : nullptr;
    node.attributes.erase("dense_weights");  // what once was written may be of other weights
    if (weights != nullptr && weights->dtype() == DType::f32 && weights->has_data() && !weights->is_deferred() &&
        !ops::may_be_sparse(*weights))
      node.attributes.emplace("dense_weights", std::int64_t{1});
  }
  return graph;
}

}  // namespace tessera::passes
