// The product with a matrix and its usual epilogue as one operator. Not ONNX: passes/fuse/fuse_epilogues.cpp makes it.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef linear;  // "tessera::Linear"

// Checks the first three inputs against each other: X [..., inputs], W [inputs, outputs] or its transpose, and an
// optional bias [outputs]. Returns the dimensions of X W, or nothing while the rank of X is unknown. The axes of X from
// `axis` on together are the inputs.
std::optional<ir::Dims> linear_dims(const InferContext& context, std::int64_t axis, bool transposed_weights);
double linear_operations(const NodeView& view);

// Samples a thousand f32 weights, in storage order: false when these are so dense that counting all weights would be a
// waste.
bool may_be_sparse(const Tensor& weights);

}  // namespace tessera::ops
