// The nodes of which quantised models consist: QuantizeLinear and DequantizeLinear pairs. One place for whoever writes
// them, after training and after calibration.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ops/core/builder.h"

namespace tessera::ops {

struct QuantisedValue {
  ir::ValueId integers, real;
};

// Names of values; an empty one gets a fresh name.
struct QuantisedNames {
  std::string integers, real;
};

// The value as uint8 and back: q = round(value / scale) + zero_point. `scale` and `zero_point` are constants.
QuantisedValue quantise_value(GraphBuilder& builder, ir::ValueId value, ir::ValueId scale, ir::ValueId zero_point,
                              QuantisedNames names = {});

// A constant of integers around zero (i8, i4 or i32) as real numbers. `scales`: f32, one for each index on `axis`.
QuantisedValue dequantise_constant(GraphBuilder& builder, Tensor integers, Tensor scales, std::int64_t axis,
                                   QuantisedNames names = {});

// A bias as int32 in units of the scale of the data times those of the weights (f32 [channels]), which is what integer
// layers sum in. Nothing where a number does not fit in 32 bits.
std::optional<QuantisedValue> dequantise_bias(GraphBuilder& builder, std::span<const double> bias,
                                              const Tensor& weight_scales, double data_scale,
                                              QuantisedNames names = {});

}  // namespace tessera::ops
