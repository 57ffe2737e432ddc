#include "support/float64_graph.h"

#include <algorithm>

#include "ops/core/infer.h"

namespace tessera::test {

Tensor float64_tensor(const Tensor& tensor) {
  if (tensor.dtype() != DType::f32) return tensor;
  Tensor wide(DType::f64, tensor.shape());
  std::copy_n(tensor.data<float>(), tensor.elements(), wide.mutable_data<double>());
  return wide;
}

ir::Graph float64_graph(ir::Graph graph) {
  const std::size_t count = graph.value_count();
  std::vector<ir::ValueId> replacements(count);
  for (std::size_t i = 0; i < count; ++i) {
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    const Tensor* constant = graph.constant(id);
    if (constant != nullptr && constant->dtype() == DType::f32)
      replacements[i] = graph.add_constant(float64_tensor(*constant));
    else if (graph.value(id).type.is_tensor() && graph.value(id).type.dtype == DType::f32)
      graph.value(id).type.dtype = DType::f64;
  }
  graph.replace_uses(replacements);
  for (const ir::NodeId id : graph.order()) {
    ir::Node& node = graph.node(id);
    if (node.op == "Cast" && std::get<std::int64_t>(node.attributes.at("to")) == static_cast<std::int64_t>(DType::f32))
      node.attributes["to"] = static_cast<std::int64_t>(DType::f64);
    if (const auto value = node.attributes.find("value");
        value != node.attributes.end() && std::holds_alternative<Tensor>(value->second))
      value->second = float64_tensor(std::get<Tensor>(value->second));
  }
  ops::infer_graph(graph);
  return graph;
}

}  // namespace tessera::test
