// Declarations of the reference kernels of this folder, grouped by the file that holds them, for kernel_table.cpp.
// Kernels need not include it: a new operator would rebuild them all, and the linker catches a declaration that matches
// no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// block_gather.cpp
void block_gather(KernelContext&);

// concat.cpp
void concat(KernelContext&);
void split(KernelContext&);

// expand.cpp
void expand(KernelContext&);
void tile(KernelContext&);

// gather.cpp
void gather(KernelContext&);
void gather_elements(KernelContext&);
void gather_nd(KernelContext&);

// pad.cpp
void pad(KernelContext&);
void center_crop_pad(KernelContext&);

// slice.cpp
void slice(KernelContext&);

// trilu.cpp
void trilu(KernelContext&);

// reverse_sequence.cpp
void reverse_sequence(KernelContext&);

// scatter.cpp
void scatter_elements(KernelContext&);
void scatter_nd(KernelContext&);
void tensor_scatter(KernelContext&);
void scatter_rows(KernelContext&);
void sum_rows(KernelContext&);

// transpose.cpp
void transpose(KernelContext&);
void depth_to_space(KernelContext&);
void space_to_depth(KernelContext&);

// reshape.cpp: operators whose output has the input's bytes
void copy_bytes(KernelContext&);
void reshape(KernelContext&);
void squeeze(KernelContext&);
void unsqueeze(KernelContext&);

}  // namespace tessera::backends::reference
