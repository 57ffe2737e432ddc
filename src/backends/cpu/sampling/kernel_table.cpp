#include "backends/cpu/sampling/kernel_table.h"

#include "backends/cpu/sampling/kernels.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> sampling_kernels() {
  static const KernelEntry table[] = {
      // grid_sample_f32
      {.op = "GridSample", .name = "cpu_grid_sample", .reject = reject_grid_sample_f32, .function = grid_sample_f32},
      {.op = "tessera::GridSampleGradient",
       .name = "cpu_grid_sample_gradient",
       .reject = reject_grid_sample_f32,
       .function = grid_sample_gradient_f32},
      // deformed_windows_f32
      {.op = "tessera::DeformedWindows",
       .name = "cpu_deformed_windows",
       .reject = reject_deformed_windows_f32,
       .function = deformed_windows_f32},
      {.op = "tessera::DeformedWindowsGradient",
       .name = "cpu_deformed_windows_gradient",
       .reject = reject_deformed_windows_f32,
       .function = deformed_windows_gradient_f32},
      // roi_align_f32
      {.op = "RoiAlign", .name = "cpu_roi_align", .reject = reject_roi_align_f32, .function = roi_align_f32},
      {.op = "tessera::RoiAlignGradient",
       .name = "cpu_roi_align_gradient",
       .reject = reject_roi_align_f32,
       .function = roi_align_gradient_f32},
  };
  return table;
}

}  // namespace tessera::backends::cpu
