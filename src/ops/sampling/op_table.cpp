#include "ops/sampling/op_table.h"

#include "ops/sampling/grid_sample.h"
#include "ops/sampling/region.h"
#include "ops/sampling/resize.h"
#include "ops/sampling/resize_gradient.h"

namespace tessera::ops {

std::span<const OpDef* const> sampling_ops() {
  static constexpr const OpDef* table[] = {
      // resize
      &resize,
      // resize_gradient
      &resize_gradient,
      // grid_sample
      &grid_sample,
      &grid_sample_gradient,
      &affine_grid,
      // region
      &roi_align,
      &roi_align_gradient,
      &max_roi_pool,
      &max_roi_pool_gradient,
      &non_max_suppression,
  };
  return table;
}

}  // namespace tessera::ops
