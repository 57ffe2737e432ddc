#include "passes/find.h"

#include <algorithm>

namespace tessera::passes {

const ir::Node* producer_of(const ir::Graph& graph, ir::ValueId value, std::string_view op) {
  if (!value.valid() || graph.value(value).origin != ir::Origin::node) return nullptr;
  const ir::Node& node = graph.node(graph.value(value).producer);
  return node.op == op ? &node : nullptr;
}

const ir::Dims* dims_of(const ir::Graph& graph, ir::ValueId value) {
  const ir::ValueType& type = graph.value(value).type;
  return type.is_tensor() && type.dims ? &*type.dims : nullptr;
}

std::optional<double> number_of(const ir::Graph& graph, ir::ValueId value) {
  const Tensor* constant = graph.constant(value);
  if (constant == nullptr || constant->raw() == nullptr || constant->dtype() != DType::f32 || constant->elements() != 1) return std::nullopt;
  return *constant->data<float>();
}

bool is_result(const ir::Graph& graph, ir::ValueId value) {
  const auto& variables = graph.variables();
  return graph.is_output(value) || std::any_of(variables.begin(), variables.end(), [&](const ir::Variable& variable) { return variable.update == value; });
}

std::vector<std::int64_t> permutation_of(const ir::Node& transpose, std::size_t rank) {
  if (const auto found = transpose.attributes.find("perm"); found != transpose.attributes.end()) return std::get<std::vector<std::int64_t>>(found->second);
  std::vector<std::int64_t> reversed(rank);
  for (std::size_t i = 0; i < rank; ++i) reversed[i] = static_cast<std::int64_t>(rank - 1 - i);
  return reversed;
}

}  // namespace tessera::passes
