#pragma once

#include <optional>
#include <vector>

#include "ops/core/op.h"

namespace tessera::ops {

// The transpose (gradient with respect to the data) of Conv.
extern const OpDef conv_transpose;

// group, kernel_shape, strides, dilations, pads, auto_pad, output_padding, output_shape.
std::vector<AttributeSpec> transposed_convolution_attributes();
// Checks the operands against each other; gives [N, M, spatial...] for data of these dimensions (null: not known), or
// nothing while no rank is known.
std::optional<ir::Dims> transposed_dims(const InferContext& context, const ir::Dims* data);
// 2 for every input element and weight of its channel.
double transposed_convolution_operations(const NodeView& view);

}  // namespace tessera::ops
