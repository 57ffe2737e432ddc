// Pooling over sliding windows and over all of space.
#pragma once

#include "ops/op.h"

namespace tessera::ops {

extern const OpDef average_pool;
extern const OpDef max_pool;
extern const OpDef lp_pool;
extern const OpDef max_unpool;
extern const OpDef global_average_pool;
extern const OpDef global_max_pool;
extern const OpDef global_lp_pool;

// [N, C, pooled spatial...] for data [N, C, spatial...] at input 0 and the node's window attributes; nothing while the
// rank is unknown.
std::optional<ir::Dims> pooled_dims(const InferContext& context);
// [N, C, 1...] for data [N, C, spatial...] at input 0.
void infer_global_pooling(InferContext& context);
// kernel_shape, strides, pads, dilations, auto_pad, ceil_mode.
std::vector<AttributeSpec> pooling_attributes();

}  // namespace tessera::ops
