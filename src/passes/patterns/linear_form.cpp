#include "passes/patterns/linear_form.h"

#include "ops/op_table.h"
#include "passes/find.h"

namespace tessera::passes {
namespace {

bool has_transposed_weights(const ir::Node& node) {
  const auto found = node.attributes.find("transB");
  return found != node.attributes.end() && std::get<std::int64_t>(found->second) != 0;
}

bool is_plain_gemm(const ir::Graph& graph, const ir::Node& gemm) {
  const ops::AttributeReader reader(gemm, ops::op_of(gemm));
  if (reader.integer("transA") != 0 || reader.real("alpha") != 1) return false;
  if (gemm.inputs.size() < 3 || !gemm.inputs[2].valid()) return true;
  const ir::Dims* bias = dims_of(graph, gemm.inputs[2]);
  return reader.real("beta") == 1 && bias != nullptr && surely_equal(*bias, {outputs_of_linear(graph, gemm)});
}

}  // namespace

std::optional<ir::Node> as_linear(const ir::Graph& graph, const ir::Node& node) {
  if (node.op == kLinear) return node;
  const bool transposed_matmul = node.op == "tessera::TransposedMatMul" && !node.attributes.contains("transA");
  if (node.op != "MatMul" && node.op != "Gemm" && !transposed_matmul) return std::nullopt;
  const ir::ValueType& weights = graph.value(node.inputs[1]).type;
  const ir::Dims* x = dims_of(graph, node.inputs[0]);
  if (weights.dtype != DType::f32 || !weights.is_tensor() || !weights.shape() || weights.dims->size() != 2 ||
      x == nullptr || x->size() < 2)
    return std::nullopt;
  // A constant on the left is packed by MatMul itself.
  if (graph.is_constant(node.inputs[0]) && !graph.is_constant(node.inputs[1])) return std::nullopt;
  if (node.op == "Gemm" && !is_plain_gemm(graph, node)) return std::nullopt;
  ir::Node linear{std::string(kLinear), node.name, node.inputs, node.outputs, {}, 0};
  if (has_transposed_weights(node)) linear.attributes.emplace("transB", std::int64_t{1});
  return linear;
}

ir::Dim outputs_of_linear(const ir::Graph& graph, const ir::Node& linear) {
  const ir::Dims* weights = dims_of(graph, linear.inputs[1]);
  return weights != nullptr && weights->size() == 2 ? (*weights)[has_transposed_weights(linear) ? 0 : 1] : ir::Dim();
}

}  // namespace tessera::passes
