// Declarations of the reference kernels of this folder, grouped by the file that holds them, for kernel_table.cpp.
// Kernels need not include it: a new operator would rebuild them all, and the linker catches a declaration that matches
// no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// paged_cache.cpp
void cache_attention(KernelContext&);
void append_rows(KernelContext&);

// attention.cpp
void attention(KernelContext&);

// attention_gradient.cpp
void attention_gradient(KernelContext&);

// linear_attention.cpp
void linear_attention(KernelContext&);

// linear_attention_gradient.cpp
void linear_attention_gradient(KernelContext&);

// rotary_embedding.cpp
void rotary_embedding(KernelContext&);

}  // namespace tessera::backends::reference
