// Padding and cropping. Suffixes are the bits of an element.
#pragma once

#include "backends/cuda/kernels/device_code.h"
#include "backends/cuda/kernels/movement/pad_parameters.h"

namespace tessera::cuda {

// One thread takes every (grid × 256)-th element.
extern "C" {
__global__ void pad_8(const __grid_constant__ PadParameters p);
__global__ void pad_16(const __grid_constant__ PadParameters p);
__global__ void pad_32(const __grid_constant__ PadParameters p);
__global__ void pad_64(const __grid_constant__ PadParameters p);
}

}  // namespace tessera::cuda
