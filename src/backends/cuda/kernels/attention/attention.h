// Scaled dot-product attention as the first rung of its ladder: a warp for each query, online softmax over 32 keys at a
// time (arXiv:1805.02867), no tensor cores. Suffixes name the type of q, k, v and y; arithmetic is float.
#pragma once

#include "backends/cuda/kernels/attention/attention_parameters.h"
#include "backends/cuda/kernels/device_code.h"

namespace tessera::cuda {

// Blocks of kAttentionThreads; warps take every (grid × kAttentionWarps)-th row.
extern "C" {
__global__ void attention_f32(const __grid_constant__ AttentionParameters p);
__global__ void attention_f16(const __grid_constant__ AttentionParameters p);
__global__ void attention_bf16(const __grid_constant__ AttentionParameters p);
}

}  // namespace tessera::cuda
