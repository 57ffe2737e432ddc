// Convolution and pooling over windows of up to three axes, channels first, as the first rung of their ladders: one
// thread for each element of y, sums in float in the order of channels, rows and columns. Any sizes and alignment.
// Suffixes name the type of x, weights and y: f32, f16, bf16.
#pragma once

#include "backends/cuda/kernels/device_code.h"
#include "backends/cuda/kernels/windows/windows_parameters.h"

namespace tessera::cuda {

// One thread takes every (grid × 256)-th element.
extern "C" {
__global__ void conv_direct_f32(ConvParameters p);
__global__ void conv_direct_f16(ConvParameters p);
__global__ void conv_direct_bf16(ConvParameters p);
__global__ void conv_transpose_f32(ConvParameters p);
__global__ void conv_transpose_f16(ConvParameters p);
__global__ void conv_transpose_bf16(ConvParameters p);
__global__ void pooling_f32(PoolingParameters p);
__global__ void pooling_f16(PoolingParameters p);
__global__ void pooling_bf16(PoolingParameters p);
}

}  // namespace tessera::cuda
