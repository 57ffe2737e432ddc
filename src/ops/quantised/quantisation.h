// Conversion between real numbers and quantised ones: real = scale · (q − zero_point).
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef quantize_linear, dequantize_linear, dynamic_quantize_linear;

// Whether the integers that the node returns stand for real numbers, so that gradients flow through them. Such
// gradients have a float type and are with respect to the integers.
bool stands_for_reals(const ir::Node& node);

// The parts of a tensor to which the elements of a scale apply.
struct QuantisationLayout {
  enum class Kind { per_tensor, per_axis, blocked } kind = Kind::per_tensor;
  std::int64_t axis = 0;        // per_axis and blocked
  std::int64_t block_size = 0;  // blocked: elements along the axis that share a scale
};

// The layout for concrete shapes; throws Error(invalid_model) when the scale does not fit the tensor.
QuantisationLayout quantisation_layout(const Shape& tensor, const Shape& scale, std::int64_t axis,
                                       std::int64_t block_size);

}  // namespace tessera::ops
