// Declarations of the reference kernels of this folder, grouped by the file that holds them, for kernel_table.cpp.
// Kernels need not include it: a new operator would rebuild them all, and the linker catches a declaration that matches
// no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// resize.cpp
void resize(KernelContext&);
void resize_gradient(KernelContext&);

// grid_sample.cpp
void grid_sample(KernelContext&);
void grid_sample_gradient(KernelContext&);
void affine_grid(KernelContext&);

// region.cpp
void roi_align(KernelContext&);
void roi_align_gradient(KernelContext&);
void max_roi_pool(KernelContext&);
void max_roi_pool_gradient(KernelContext&);
void non_max_suppression(KernelContext&);

}  // namespace tessera::backends::reference
