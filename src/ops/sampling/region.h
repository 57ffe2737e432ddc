// RoiAlign, MaxRoiPool, NonMaxSuppression: pooling of regions of interest in feature maps, and selection among regions.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef roi_align;
extern const OpDef roi_align_gradient;
extern const OpDef max_roi_pool;
extern const OpDef max_roi_pool_gradient;
extern const OpDef non_max_suppression;

}  // namespace tessera::ops
