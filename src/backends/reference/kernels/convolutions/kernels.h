// Declarations of the reference kernels of this folder, grouped by the file that holds them, for kernel_table.cpp.
// Kernels need not include it: a new operator would rebuild them all, and the linker catches a declaration that matches
// no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// causal_conv_with_state.cpp
void causal_conv_with_state(KernelContext&);

// conv.cpp
void conv(KernelContext&);

// conv_transpose.cpp
void conv_transpose(KernelContext&);

// deform_conv.cpp
void deform_conv(KernelContext&);
void deformed_windows(KernelContext&);
void deformed_windows_gradient(KernelContext&);

// col2im.cpp
void col2im(KernelContext&);

}  // namespace tessera::backends::reference
