// The product with a matrix and what usually follows it, as one operator. Not ONNX: passes/fuse/fuse_epilogues.cpp
// makes it.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef linear;  // "tessera::Linear"

// Checks X [..., inputs], W [inputs, outputs] or its transpose, and maybe a bias [outputs] against each other, the
// first three inputs; gives the dimensions of X W, or nothing while the rank of X is unknown. X's axes from `axis` on
// together are the inputs.
std::optional<ir::Dims> linear_dims(const InferContext& context, std::int64_t axis, bool transposed_weights);
double linear_operations(const NodeView& view);

// A look at a thousand weights of f32, in the order in which they lie: false when these are so dense that counting all
// would be a waste.
bool may_be_sparse(const Tensor& weights);

}  // namespace tessera::ops
