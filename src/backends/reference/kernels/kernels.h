// Declarations of all reference kernels, grouped by the file that holds them.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// element_wise_unary.cpp
void relu(KernelContext&);
void sigmoid(KernelContext&);

// reshape.cpp: operators whose output is the input's bytes
void copy_bytes(KernelContext&);

// softmax.cpp
void softmax(KernelContext&);

}  // namespace tessera::backends::reference
