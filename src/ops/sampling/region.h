// RoiAlign, MaxRoiPool, NonMaxSuppression: regions of interest in feature maps, and choosing among them.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef roi_align;
extern const OpDef roi_align_gradient;
extern const OpDef max_roi_pool;
extern const OpDef max_roi_pool_gradient;
extern const OpDef non_max_suppression;

}  // namespace tessera::ops
