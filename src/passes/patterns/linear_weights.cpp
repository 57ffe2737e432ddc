#include "passes/patterns/linear_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/file_pages.h"
#include "passes/find.h"

namespace tessera::passes {
namespace {

constexpr std::int64_t kLeastDeferred = 16 * 1024;

// Factors per channel, and the layout of the weights.
struct ChannelScales {
  LinearWeights layout;
  std::vector<double> by_input, by_output;

  // The factor of a whole row, and the factors of its columns, as many as `layout` has columns.
  double of_row(std::int64_t row) const {
    return (layout.rows_are_outputs ? by_output : by_input)[static_cast<std::size_t>(row)];
  }
  const double* of_columns(std::int64_t row) const {
    return (layout.rows_are_outputs ? by_input : by_output).data() + layout.first_channel(row);
  }

  void apply(const Tensor& weights, float* to) const {
    const float* from = weights.data<float>();
    for (std::int64_t row = 0; row < layout.rows; ++row) {
      const double* factors = of_columns(row);
      for (std::int64_t column = 0; column < layout.columns; ++column) {
        const double factor = factors[column] * of_row(row);
        for (std::int64_t k = 0; k < layout.kernel; ++k, ++from, ++to) *to = static_cast<float>(*from * factor);
      }
    }
  }

  // Whether the product of the largest weight and the largest factors is finite.
  bool surely_finite(const Tensor& weights) const {
    const auto largest_of = [](const std::vector<double>& values) {
      return std::transform_reduce(
          values.begin(), values.end(), 0.0, [](double a, double b) { return std::max(a, b); },
          [](double value) { return std::abs(value); });
    };
    float largest = 0;
    for (const float weight : weights.values<float>()) {
      if (!(std::abs(weight) <= largest)) largest = std::abs(weight);
      if (std::isnan(largest)) return false;
    }
    return largest * largest_of(by_input) * largest_of(by_output) <= 0.99 * std::numeric_limits<float>::max();
  }
};

bool all_finite(const Tensor& tensor) {
  return std::ranges::all_of(tensor.values<float>(), [](float value) { return std::isfinite(value); });
}

}  // namespace

std::optional<LinearWeights> linear_weights(const ir::Graph& graph, const ir::Node& node) {
  const bool product = is_product(node);
  if (!product && node.op != "Conv" && node.op != "ConvTranspose") return std::nullopt;
  const Tensor* tensor = graph.constant(node.inputs[1]);
  if (tensor == nullptr || tensor->dtype() != DType::f32 || !tensor->has_data() || tensor->elements() == 0)
    return std::nullopt;
  const Shape& shape = tensor->shape();
  if (product ? shape.size() != 2 : shape.size() < 3) return std::nullopt;
  LinearWeights result{tensor,
                       0,
                       0,
                       shape[0],
                       shape[1],
                       tensor->elements() / shape[0] / shape[1],
                       product ? 1 : integer_of(node, "group", 1)};
  if (result.groups < 1 || result.rows % result.groups != 0) return std::nullopt;
  result.rows_are_outputs = product ? integer_of(node, "transB", 0) != 0 : node.op == "Conv";
  result.inputs = result.rows_are_outputs ? result.columns * result.groups : result.rows;
  result.outputs = result.rows_are_outputs ? result.rows : result.columns * result.groups;
  return result;
}

bool is_product(const ir::Node& node) {
  return node.op == "MatMul" || node.op == "Gemm";
}

std::size_t channel_axis(const ir::Node& linear, std::size_t rank) {
  return is_product(linear) ? rank - 1 : 1;
}

std::optional<Tensor> LinearWeights::scaled(std::span<const double> by_input, std::span<const double> by_output) const {
  ChannelScales scales{*this, {by_input.begin(), by_input.end()}, {by_output.begin(), by_output.end()}};
  scales.layout.tensor = nullptr;  // may not exist any more when the product is computed
  const Tensor weights = tensor->contents();
  std::optional<Tensor> result;
  // The source of a deferred tensor must be memory that is accounted for elsewhere.
  const bool may_wait = tensor->is_deferred() || base::lies_in_file(weights.raw());
  if (!may_wait || weights.bytes() < kLeastDeferred || !scales.surely_finite(weights)) {
    result = Tensor(DType::f32, weights.shape());
    scales.apply(weights, result->mutable_data<float>());
    if (!all_finite(*result)) result.reset();
  } else {
    // Computed when kernels pack the weights; the result is in memory only meanwhile.
    result = Tensor::deferred(DType::f32, weights.shape(), [scales, source = *tensor](void* to) {
      const Tensor weights = source.contents();
      scales.apply(weights, static_cast<float*>(to));
      base::release_file_pages(weights.raw(), static_cast<std::size_t>(weights.bytes()));
    });
  }
  base::release_file_pages(weights.raw(), static_cast<std::size_t>(weights.bytes()));
  return result;
}

std::vector<double> LinearWeights::applied(std::span<const double> by_input) const {
  std::vector<double> result(static_cast<std::size_t>(outputs), 0.0);
  const Tensor weights = tensor->contents();
  const float* from = weights.data<float>();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t other = first_channel(row) + column;
      double& sum = result[static_cast<std::size_t>(rows_are_outputs ? row : other)];
      const double number = by_input[static_cast<std::size_t>(rows_are_outputs ? other : row)];
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
