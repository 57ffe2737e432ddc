#include "backends/reference/kernels/sampling/kernel_table.h"

#include "backends/reference/kernels/sampling/kernels.h"

namespace tessera::backends::reference {

std::span<const KernelEntry> sampling_kernels() {
  static const KernelEntry table[] = {
      // resize
      {.op = "Resize", .name = "reference_resize", .function = resize},
      {.op = "tessera::ResizeGradient", .name = "reference_resize_gradient", .function = resize_gradient},
      // grid_sample
      {.op = "GridSample", .name = "reference_grid_sample", .function = grid_sample},
      {.op = "tessera::GridSampleGradient", .name = "reference_grid_sample_gradient", .function = grid_sample_gradient},
      {.op = "AffineGrid", .name = "reference_affine_grid", .function = affine_grid},
      // region
      {.op = "RoiAlign", .name = "reference_roi_align", .function = roi_align},
      {.op = "tessera::RoiAlignGradient", .name = "reference_roi_align_gradient", .function = roi_align_gradient},
      {.op = "MaxRoiPool", .name = "reference_max_roi_pool", .function = max_roi_pool},
      {.op = "tessera::MaxRoiPoolGradient",
       .name = "reference_max_roi_pool_gradient",
       .function = max_roi_pool_gradient},
      {.op = "NonMaxSuppression", .name = "reference_non_max_suppression", .function = non_max_suppression},
  };
  return table;
}

}  // namespace tessera::backends::reference
