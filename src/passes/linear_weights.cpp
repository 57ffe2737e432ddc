#include "passes/linear_weights.h"

#include <cmath>

namespace tessera::passes {
namespace {

std::int64_t integer(const ir::Node& node, const std::string& name, std::int64_t otherwise) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? otherwise : std::get<std::int64_t>(found->second);
}

}  // namespace

std::optional<LinearWeights> linear_weights(const ir::Graph& graph, const ir::Node& node) {
  const bool product = is_product(node);
  if (!product && node.op != "Conv" && node.op != "ConvTranspose") return std::nullopt;
  const Tensor* tensor = graph.constant(node.inputs[1]);
  if (tensor == nullptr || tensor->dtype() != DType::f32 || tensor->raw() == nullptr || tensor->elements() == 0) return std::nullopt;
  const Shape& shape = tensor->shape();
  if (product ? shape.size() != 2 : shape.size() < 3) return std::nullopt;
  LinearWeights result{tensor, 0, 0, shape[0], shape[1], tensor->elements() / shape[0] / shape[1], product ? 1 : integer(node, "group", 1)};
  if (result.groups < 1 || result.rows % result.groups != 0) return std::nullopt;
  result.rows_are_outputs = product ? integer(node, "transB", 0) != 0 : node.op == "Conv";
  result.inputs = result.rows_are_outputs ? result.columns * result.groups : result.rows;
  result.outputs = result.rows_are_outputs ? result.rows : result.columns * result.groups;
  return result;
}

bool is_product(const ir::Node& node) { return node.op == "MatMul" || node.op == "Gemm"; }

std::size_t channel_axis(const ir::Node& linear, std::size_t rank) { return is_product(linear) ? rank - 1 : 1; }

std::optional<Tensor> LinearWeights::scaled(std::span<const double> by_input, std::span<const double> by_output) const {
  Tensor result(DType::f32, tensor->shape());
  const float* from = tensor->data<float>();
  float* to = result.mutable_data<float>();
  bool finite = true;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const double scale = by_input[static_cast<std::size_t>(input_of(row, column))] * by_output[static_cast<std::size_t>(output_of(row, column))];
      for (std::int64_t k = 0; k < kernel; ++k, ++from, ++to) {
        *to = static_cast<float>(*from * scale);
        finite = finite && std::isfinite(*to);
      }
    }
  }
  return finite ? std::optional(std::move(result)) : std::nullopt;
}

std::vector<double> LinearWeights::applied(std::span<const double> by_input) const {
  std::vector<double> result(static_cast<std::size_t>(outputs), 0.0);
  const float* from = tensor->data<float>();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      double& sum = result[static_cast<std::size_t>(output_of(row, column))];
      const double number = by_input[static_cast<std::size_t>(input_of(row, column))];
      for (std::int64_t k = 0; k < kernel; ++k, ++from) sum += *from * number;
    }
  }
  return result;
}

bool charge(const PassContext& context, const Tensor& weights) {
  if (context.folding_left == nullptr) return true;
  if (context.folding_left->bytes < weights.bytes()) return false;
  context.folding_left->bytes -= weights.bytes();
  return true;
}

}  // namespace tessera::passes
