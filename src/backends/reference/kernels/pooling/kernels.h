// Declarations of the reference kernels of this folder, grouped by the file that holds them, for kernel_table.cpp.
// Kernels need not include it: a new operator would rebuild them all, and the linker catches a declaration that matches
// no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// max_pool_gradient.cpp
void max_pool_gradient(KernelContext&);

// pooling.cpp
void average_pool(KernelContext&);
void average_pool_gradient(KernelContext&);
void max_pool(KernelContext&);
void lp_pool(KernelContext&);
void max_unpool(KernelContext&);
void global_average_pool(KernelContext&);
void global_max_pool(KernelContext&);
void global_lp_pool(KernelContext&);

}  // namespace tessera::backends::reference
