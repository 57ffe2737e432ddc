// Interpolation along up to three axes: nearest elements, or linear. Suffixes name the type of x and y.
#pragma once

#include "backends/cuda/kernels/device_code.h"
#include "backends/cuda/kernels/movement/resize_parameters.h"

namespace tessera::cuda {

// One thread takes every (grid × 256)-th element.
extern "C" {
__global__ void resize_f32(const __grid_constant__ ResizeParameters p);
__global__ void resize_f16(const __grid_constant__ ResizeParameters p);
__global__ void resize_bf16(const __grid_constant__ ResizeParameters p);
}

}  // namespace tessera::cuda
