// Declarations of the reference kernels of this folder, grouped by the file that holds them, for kernel_table.cpp.
// Kernels need not include it: a new operator would rebuild them all, and the linker catches a declaration that matches
// no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// block_linear.cpp
void block_linear(KernelContext&);

// determinant.cpp
void det(KernelContext&);
void det_gradient(KernelContext&);

// inverse.cpp
void inverse(KernelContext&);

// einsum.cpp
void einsum(KernelContext&);

// matrix_product.cpp
void matmul(KernelContext&);
void gemm(KernelContext&);
void matmul_integer(KernelContext&);
void qlinear_matmul(KernelContext&);

}  // namespace tessera::backends::reference
