// The functions, factories and reject rules that sampling/kernel_table.cpp lists, grouped by the stem of the file that
// defines them.
#pragma once

#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// grid_sample_f32
std::string reject_grid_sample_f32(const ops::NodeView& view);
void grid_sample_f32(KernelContext& context);
void grid_sample_gradient_f32(KernelContext& context);

// deformed_windows_f32
std::string reject_deformed_windows_f32(const ops::NodeView& view);
void deformed_windows_f32(KernelContext& context);
void deformed_windows_gradient_f32(KernelContext& context);

// roi_align_f32
std::string reject_roi_align_f32(const ops::NodeView& view);
void roi_align_f32(KernelContext& context);
void roi_align_gradient_f32(KernelContext& context);

}  // namespace tessera::backends::cpu
