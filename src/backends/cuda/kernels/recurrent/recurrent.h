// Recurrent layers step by step, as the first rung of their ladder: a warp for each unit of each batch element.
// Equations: ONNX operator documentation of LSTM and GRU. Suffixes name the type of x, w, r and y; sums are float.
#pragma once

#include "backends/cuda/kernels/device_code.h"
#include "backends/cuda/kernels/recurrent/recurrent_parameters.h"

namespace tessera::cuda {

extern "C" {
__global__ void lstm_step_f32(const __grid_constant__ RecurrentParameters p);
__global__ void lstm_step_f16(const __grid_constant__ RecurrentParameters p);
__global__ void lstm_step_bf16(const __grid_constant__ RecurrentParameters p);
__global__ void gru_step_f32(const __grid_constant__ RecurrentParameters p);
__global__ void gru_step_f16(const __grid_constant__ RecurrentParameters p);
__global__ void gru_step_bf16(const __grid_constant__ RecurrentParameters p);
__global__ void initial_state_f32(StateParameters p);
__global__ void initial_state_f16(StateParameters p);
__global__ void initial_state_bf16(StateParameters p);
}

}  // namespace tessera::cuda
