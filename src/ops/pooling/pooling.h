// Pooling over sliding windows and over all of space.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef average_pool;
extern const OpDef max_pool;
extern const OpDef lp_pool;
extern const OpDef max_unpool;
extern const OpDef global_average_pool;
extern const OpDef global_max_pool;
extern const OpDef global_lp_pool;

// [N, C, pooled spatial...] for data [N, C, spatial...] and the node's window attributes.
ir::Dims pooled_dims(const InferContext& context, const ir::Dims& x);
// The output dimensions for data at input 0; nothing while its rank is unknown.
std::optional<ir::Dims> pooled_dims(const InferContext& context);
// [N, C, 1...] for data [N, C, spatial...] at input 0.
void infer_global_pooling(InferContext& context);
// kernel_shape, strides, pads, dilations, auto_pad, ceil_mode.
std::vector<AttributeSpec> pooling_attributes();
// The attributes above and count_include_pad.
std::vector<AttributeSpec> average_pooling_attributes();
// One operation for every element of the window of every output.
double pooling_operations(const NodeView& view);

}  // namespace tessera::ops
