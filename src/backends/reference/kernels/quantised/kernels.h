// Declarations of the reference kernels of this folder, grouped by the file that holds them, for kernel_table.cpp.
// Kernels need not include it: a new operator would rebuild them all, and the linker catches a declaration that matches
// no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// quantisation.cpp
void quantize_linear(KernelContext&);
void dequantize_linear(KernelContext&);
void dynamic_quantize_linear(KernelContext&);

// conv_integer.cpp
void conv_integer(KernelContext&);
void q_linear_conv(KernelContext&);

}  // namespace tessera::backends::reference
