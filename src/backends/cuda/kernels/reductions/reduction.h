// Reductions over any axes, and positions of extremes. Suffixes name the type of x and y; sums are kept in float.
#pragma once

#include "backends/cuda/kernels/device_code.h"
#include "backends/cuda/kernels/reductions/reduction_parameters.h"

namespace tessera::cuda {

// reduce_*: blocks, or threads, take every (grid)-th result. arg_extreme_*: warps do.
extern "C" {
__global__ void reduce_f32(const __grid_constant__ ReductionParameters p);
__global__ void reduce_f16(const __grid_constant__ ReductionParameters p);
__global__ void reduce_bf16(const __grid_constant__ ReductionParameters p);
__global__ void arg_extreme_f32(ArgExtremeParameters p);
__global__ void arg_extreme_f16(ArgExtremeParameters p);
__global__ void arg_extreme_bf16(ArgExtremeParameters p);
}

}  // namespace tessera::cuda
