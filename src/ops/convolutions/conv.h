// Conv, and functions that the other convolutions share with it.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef conv;

// group, kernel_shape, strides, dilations, pads and, where the operator has it, auto_pad.
std::vector<AttributeSpec> convolution_attributes(bool with_auto_pad = true);

// The inputs of a node that are data [N, C, spatial...], weights [M, C/group, kernel...] and bias [M].
struct ConvolutionInputs {
  std::size_t data = 0;
  std::size_t weights = 1;
  std::size_t bias = 2;
};
// Checks the operands against each other; returns [N, M, spatial...] for data of these dimensions (null: not known), or
// nothing while neither rank is known.
std::optional<ir::Dims> convolved_dims(const InferContext& context, const ir::Dims* data,
                                       ConvolutionInputs inputs = {});
// Infers output 0, of type `dtype`, from the node's inputs.
void infer_convolution(InferContext& context, ConvolutionInputs inputs, DType dtype);

// Two operations for every weight that meets an output element.
template <std::size_t weights>
double convolution_operations(const NodeView& view) {
  const Shape& shape = view.input(weights).shape;
  if (shape.empty() || shape[0] == 0) return 0;
  return 2.0 * static_cast<double>(view.output(0).elements()) *
         static_cast<double>(view.input(weights).elements() / shape[0]);
}

}  // namespace tessera::ops
