// The k best elements along an axis, sorted: radix selection of the k-th, then a bitonic sort of those selected.
// Suffixes name the type of x and of the values.
#pragma once

#include "backends/cuda/kernels/device_code.h"
#include "backends/cuda/kernels/rows/top_k_parameters.h"

namespace tessera::cuda {

// Blocks of kTopKThreads take every (grid)-th line.
extern "C" {
__global__ void top_k_f32(TopKParameters p);
__global__ void top_k_f16(TopKParameters p);
__global__ void top_k_bf16(TopKParameters p);
__global__ void top_k_i32(TopKParameters p);
}

}  // namespace tessera::cuda
