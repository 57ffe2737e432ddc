// The nodes of quantised models: pairs of QuantizeLinear and DequantizeLinear. Shared by quantisation after training
// and quantisation-aware training.
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

// The value quantised to u8 and dequantised: q = round(value / scale) + zero_point. `scale` and `zero_point` are
// constants.
QuantisedValue quantise_value(GraphBuilder& builder, ir::ValueId value, ir::ValueId scale, ir::ValueId zero_point,
                              QuantisedNames names = {});

// A constant of integers (i8, i4 or i32) with zero point 0, dequantised. `scales`: f32, one per index of `axis`.
QuantisedValue dequantise_constant(GraphBuilder& builder, Tensor integers, Tensor scales, std::int64_t axis,
                                   QuantisedNames names = {});

// A bias as int32 in units of the data's scale times the weights' scales (f32 [channels]), the unit of the sums in
// integer layers. Nothing where a number does not fit into 32 bits.
std::optional<QuantisedValue> dequantise_bias(GraphBuilder& builder, std::span<const double> bias,
                                              const Tensor& weight_scales, double data_scale,
                                              QuantisedNames names = {});

}  // namespace tessera::ops
