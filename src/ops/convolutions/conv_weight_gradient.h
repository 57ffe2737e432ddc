// The gradient of a convolution with respect to its weights. Not ONNX: gradients of Conv and ConvTranspose are made of
// it, and passes/layout/channels_last.cpp brings it to data with the channels last.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef conv_weight_gradient;                // "tessera::ConvWeightGradient"
extern const OpDef channels_last_conv_weight_gradient;  // "tessera::ChannelsLastConvWeightGradient"

struct WindowAxis;

// The windows of such a node: `input` of an axis are positions of X, `output` those of G. Shapes have the channels
// first. Throws Error(invalid_model).
std::vector<WindowAxis> weight_gradient_geometry(const AttributeReader& reader, const Shape& x, const Shape& g);

}  // namespace tessera::ops
