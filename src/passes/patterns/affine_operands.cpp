#include "passes/patterns/affine_operands.h"

#include <algorithm>

#include "base/numbers/checked.h"
#include "base/numbers/half.h"
#include "passes/find.h"

namespace tessera::passes {
namespace {

// The most elements of a constant that a pass makes by repeating one number.
constexpr std::int64_t kMostAffineElements = 1 << 20;

Tensor filled(DType type, const Shape& shape, double value) {
  Tensor tensor(type, shape);
  switch (type) {
    case DType::f16:
      std::ranges::fill(tensor.mutable_values<f16_t>(), base::to_f16(static_cast<float>(value)));
      break;
    case DType::bf16:
      std::ranges::fill(tensor.mutable_values<bf16_t>(), base::to_bf16(static_cast<float>(value)));
      break;
    default:
      std::ranges::fill(tensor.mutable_values<float>(), static_cast<float>(value));
      break;
  }
  return tensor;
}

std::optional<ir::ValueId> add_filled(ir::Graph& graph, DType type, const Shape& shape, double value) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements = base::checked_multiply(elements, size);
  if (elements > kMostAffineElements) return std::nullopt;
  return graph.add_constant(filled(type, shape, value));
}

// The constant's elements in the shape `shape`: one number for all, or the elements in order of `own`, its shape with
// leading ones as it broadcasts.
std::optional<ir::ValueId> with_shape(ir::Graph& graph, ir::ValueId operand, const Shape& own, DType type,
                                      const Shape& shape) {
  const Tensor* constant = graph.constant(operand);
  if (constant == nullptr || !constant->has_data() || constant->dtype() != type) return std::nullopt;
  const std::size_t rank = constant->shape().size();
  if (rank > own.size()) return std::nullopt;
  if (constant->elements() == 1) return add_filled(graph, type, shape, *scalar_of(graph, operand));
  Shape aligned(own.size() - rank, 1);
  aligned.insert(aligned.end(), constant->shape().begin(), constant->shape().end());
  if (aligned != own) return std::nullopt;
  if (constant->shape() == shape) return operand;
  return graph.add_constant(constant->reshaped(shape));
}

}  // namespace

std::optional<ir::ValueId> per_element(ir::Graph& graph, ir::ValueId operand, const ir::Dims& dims, std::size_t axis,
                                       DType type, float otherwise) {
  const ir::Dims row(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end());
  const ir::Dims* given =
      operand.valid() && graph.value(operand).type.dims ? &*graph.value(operand).type.dims : nullptr;
  const auto sure = [](const ir::Dim& a, const ir::Dim& b) { return a.surely_equals(b); };
  if (given != nullptr && std::equal(given->begin(), given->end(), row.begin(), row.end(), sure)) return operand;
  const std::optional<Shape> shape = ir::to_shape(row);
  if (!shape) return std::nullopt;
  if (!operand.valid()) return add_filled(graph, type, *shape, otherwise);
  Shape own(dims.size(), 1);
  std::copy(shape->begin(), shape->end(), own.begin() + static_cast<std::ptrdiff_t>(axis));
  return with_shape(graph, operand, own, type, *shape);
}

std::optional<ir::ValueId> per_channel(ir::Graph& graph, ir::ValueId operand, const ir::Dims& dims, DType type,
                                       float otherwise) {
  if (!dims[1].is_known()) return std::nullopt;
  const Shape shape{dims[1].value()};
  if (!operand.valid()) return add_filled(graph, type, shape, otherwise);
  Shape own(dims.size(), 1);
  own[1] = shape[0];
  return with_shape(graph, operand, own, type, shape);
}

}  // namespace tessera::passes
