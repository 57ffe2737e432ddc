// QuantizeLinear and DequantizeLinear: real numbers are f32, f16 or bf16, integers i8, u8, i16 or u16, and i32 where
// they are dequantised.
#pragma once

#include "backends/cuda/kernels/device_code.h"
#include "backends/cuda/kernels/quantisation/quantisation_parameters.h"

namespace tessera::cuda {

// Threads take every (grid)-th element.
extern "C" {
__global__ void quantize_linear(const __grid_constant__ QuantisationParameters p);
__global__ void dequantize_linear(const __grid_constant__ QuantisationParameters p);
}

}  // namespace tessera::cuda
