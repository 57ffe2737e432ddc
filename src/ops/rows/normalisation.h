// Operators that shift and scale by statistics: batch, layer, RMS, group, instance, local response, Lp and
// mean-variance.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef batch_normalization, layer_normalization, rms_normalization, group_normalization,
    instance_normalization, lp_normalization, mean_variance_normalization, lrn;

}  // namespace tessera::ops
