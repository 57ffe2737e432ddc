#include "passes/patterns/quantised_weights.h"

#include <algorithm>
#include <limits>

namespace tessera::passes {
namespace {

const Tensor* known(const ir::Graph& graph, ir::ValueId value) {
  const Tensor* constant = graph.constant(value);
  return constant != nullptr && constant->has_data() ? constant : nullptr;
}

bool is_eight_bits(DType type) {
  return type == DType::u8 || type == DType::i8;
}

int byte_at(const Tensor& tensor, std::int64_t i) {
  return tensor.dtype() == DType::u8 ? tensor.data<std::uint8_t>()[i] : tensor.data<std::int8_t>()[i];
}

// Calls function(element, its zero point, its index) for all weights.
template <typename Function>
void for_each(const Tensor& weights, const Tensor* zeros, Function function) {
  const std::int64_t of_output = weights.elements() / std::max<std::int64_t>(1, weights.shape()[0]);
  for (std::int64_t i = 0; i < weights.elements(); ++i) {
    const int zero = zeros == nullptr ? 0 : byte_at(*zeros, zeros->elements() == 1 ? 0 : i / of_output);
    function(byte_at(weights, i), zero, i);
  }
}

}  // namespace

std::optional<QuantisedWeights> signed_weights(ops::GraphBuilder& builder, ir::ValueId bytes, ir::ValueId scale,
                                               ir::ValueId zero) {
  const ir::Graph& graph = builder.graph();
  const Tensor *values = known(graph, bytes), *scales = known(graph, scale);
  const Tensor* zeros = zero.valid() ? known(graph, zero) : nullptr;
  if (values == nullptr || values->rank() == 0 || !is_eight_bits(values->dtype()) || scales == nullptr)
    return std::nullopt;
  if (zero.valid() && (zeros == nullptr || zeros->dtype() != values->dtype() ||
                       (zeros->elements() != 1 && zeros->shape() != Shape{values->shape()[0]})))
    return std::nullopt;
  bool fits = true, moved = false;
  for_each(*values, zeros, [&](int value, int around, std::int64_t) {
    fits = fits && value - around >= std::numeric_limits<std::int8_t>::min() &&
           value - around <= std::numeric_limits<std::int8_t>::max();
    moved = moved || around != 0;
  });
  const bool is_signed = values->dtype() == DType::i8;
  if (is_signed && !moved) return QuantisedWeights{bytes, scale};
  const int lowered = is_signed ? 0 : 128;
  Tensor made(DType::i8, values->shape());
  for_each(*values, zeros, [&](int value, int around, std::int64_t i) {
    made.mutable_data<std::int8_t>()[i] = static_cast<std::int8_t>(value - (fits ? around : lowered));
  });
  if (fits) return QuantisedWeights{builder.constant(std::move(made)), scale};
  Tensor around(DType::i8, zeros == nullptr || zeros->elements() == 1 ? Shape{} : zeros->shape());
  for (std::int64_t i = 0; i < around.elements(); ++i) {
    around.mutable_data<std::int8_t>()[i] =
        static_cast<std::int8_t>((zeros == nullptr ? 0 : byte_at(*zeros, i)) - lowered);
  }
  return QuantisedWeights{builder.constant(std::move(made)), scale, builder.constant(std::move(around))};
}

Tensor real_weights(const ir::Graph& graph, const QuantisedWeights& weights) {
  const Tensor &values = *graph.constant(weights.bytes), &scales = *graph.constant(weights.scale);
  const std::int64_t of_output = values.elements() / std::max<std::int64_t>(1, values.shape()[0]);
  Tensor real(DType::f32, values.shape());
  for_each(values, weights.zero.valid() ? graph.constant(weights.zero) : nullptr,
           [&](int value, int zero, std::int64_t i) {
             const float scale = scales.data<float>()[scales.elements() == 1 ? 0 : i / of_output];
             real.mutable_data<float>()[i] = static_cast<float>(value - zero) * scale;
           });
  return real;
}

}  // namespace tessera::passes
