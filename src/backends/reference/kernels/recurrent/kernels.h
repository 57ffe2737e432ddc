// Declarations of the reference kernels of this folder, grouped by the file that holds them, for kernel_table.cpp.
// Kernels need not include it: a new operator would rebuild them all, and the linker catches a declaration that matches
// no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// recurrent.cpp
void rnn(KernelContext&);
void gru(KernelContext&);
void lstm(KernelContext&);

// recurrent_gradient.cpp
void recurrent_gradient(KernelContext&);

}  // namespace tessera::backends::reference
