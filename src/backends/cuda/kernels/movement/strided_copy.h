// Copies of elements between two layouts: transpositions, slices, parts of concatenations, broadcasts. Suffixes are the
// bits of an element.
#pragma once

#include "backends/cuda/kernels/device_code.h"
#include "backends/cuda/kernels/movement/strided_copy_parameters.h"

namespace tessera::cuda {

// One thread takes every (grid × 256)-th element.
extern "C" {
__global__ void strided_copy_8(const __grid_constant__ CopyParameters p);
__global__ void strided_copy_16(const __grid_constant__ CopyParameters p);
__global__ void strided_copy_32(const __grid_constant__ CopyParameters p);
__global__ void strided_copy_64(const __grid_constant__ CopyParameters p);
}

}  // namespace tessera::cuda
