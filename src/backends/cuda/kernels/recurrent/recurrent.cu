// Architectures: 75 80 86 89 90a 100 120
// Gate: lstm_step_f32 registers 64 shared 0 instruction SHFL
// Gate: lstm_step_f16 registers 64 shared 0 instruction SHFL
// Gate: lstm_step_bf16 registers 64 shared 0 instruction SHFL
// Gate: gru_step_f32 registers 96 shared 0 instruction SHFL
// Gate: gru_step_f16 registers 96 shared 0 instruction SHFL
// Gate: gru_step_bf16 registers 96 shared 0 instruction SHFL
// Gate: initial_state_f32 registers 64 shared 0 instruction STG
// Gate: initial_state_f16 registers 64 shared 0 instruction STG
// Gate: initial_state_bf16 registers 64 shared 0 instruction STG
#include <math.h>

#include "backends/cuda/kernels/recurrent/recurrent.h"

namespace tessera::cuda {
namespace {

__device__ __forceinline__ float sum_over_warp(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

__device__ __forceinline__ float logistic(float x) {
  return 1.0f / (1.0f + expf(-x));
}

// The unit's row of a gate times the input, and times the hidden state, without bias; for all lanes.
template <class T>
__device__ __forceinline__ float input_product(const RecurrentParameters& p, int gate, int batch, int unit) {
  const T* const w = static_cast<const T*>(p.w) + (static_cast<std::int64_t>(gate) * p.hidden + unit) * p.inputs;
  const T* const x = static_cast<const T*>(p.x) + static_cast<std::int64_t>(batch) * p.inputs;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < p.inputs; i += 32) sum += to_float(w[i]) * to_float(x[i]);
  return sum_over_warp(sum);
}
template <class T>
__device__ __forceinline__ float state_product(const RecurrentParameters& p, int gate, int batch, int unit) {
  const T* const r = static_cast<const T*>(p.r) + (static_cast<std::int64_t>(gate) * p.hidden + unit) * p.hidden;
  const float* const h = p.before + static_cast<std::int64_t>(batch) * p.hidden;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < p.hidden; i += 32) sum += to_float(r[i]) * h[i];
  return sum_over_warp(sum);
}

// The sum of row `block` of the bias: gates of w, then gates of r.
__device__ __forceinline__ float bias_of(const RecurrentParameters& p, int block, int unit) {
  return p.bias != nullptr ? p.bias[static_cast<std::int64_t>(block) * p.hidden + unit] : 0.0f;
}

template <class T>
__device__ __forceinline__ void store_state(const RecurrentParameters& p, int batch, int unit, float h) {
  const std::int64_t at = static_cast<std::int64_t>(batch) * p.hidden + unit;
  p.after[at] = h;
  if (p.y != nullptr) static_cast<T*>(p.y)[batch * p.y_stride + unit] = from_float<T>(h);
  if (p.last_hidden != nullptr) static_cast<T*>(p.last_hidden)[at] = from_float<T>(h);
}

template <class T>
struct LstmUnit {
  static __device__ __forceinline__ void run(const RecurrentParameters& p, int batch, int unit) {
    float gates[4];
#pragma unroll
    for (int gate = 0; gate < 4; ++gate)
      gates[gate] = input_product<T>(p, gate, batch, unit) + state_product<T>(p, gate, batch, unit) +
                    bias_of(p, gate, unit) + bias_of(p, 4 + gate, unit);
    if (threadIdx.x % 32 != 0) return;
    const std::int64_t at = static_cast<std::int64_t>(batch) * p.hidden + unit;
    const float cell = logistic(gates[2]) * p.cell[at] + logistic(gates[0]) * tanhf(gates[3]);
    p.cell[at] = cell;
    if (p.last_cell != nullptr) static_cast<T*>(p.last_cell)[at] = from_float<T>(cell);
    store_state<T>(p, batch, unit, logistic(gates[1]) * tanhf(cell));
  }
};

template <class T>
struct GruUnit {
  static __device__ __forceinline__ void run(const RecurrentParameters& p, int batch, int unit) {
    const float update = logistic(input_product<T>(p, 0, batch, unit) + state_product<T>(p, 0, batch, unit) +
                                  bias_of(p, 0, unit) + bias_of(p, 3, unit));
    const float input = input_product<T>(p, 2, batch, unit) + bias_of(p, 2, unit);
    const float reset = logistic(input_product<T>(p, 1, batch, unit) + state_product<T>(p, 1, batch, unit) +
                                 bias_of(p, 1, unit) + bias_of(p, 4, unit));
    const float hidden = reset * (state_product<T>(p, 2, batch, unit) + bias_of(p, 5, unit));
    if (threadIdx.x % 32 != 0) return;
    const float before = p.before[static_cast<std::int64_t>(batch) * p.hidden + unit];
    store_state<T>(p, batch, unit, (1.0f - update) * tanhf(input + hidden) + update * before);
  }
};

template <class Unit>
__device__ __forceinline__ void run_units(const RecurrentParameters& p) {
  constexpr int kWarps = kRecurrentThreads / 32;
  const std::int64_t count = static_cast<std::int64_t>(p.batch) * p.hidden;
  for (std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; number < count;
       number += static_cast<std::int64_t>(gridDim.x) * kWarps)
    Unit::run(p, static_cast<int>(number / p.hidden), static_cast<int>(number % p.hidden));
}

template <class T>
__device__ __forceinline__ void fill_state(const StateParameters& p) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kRecurrentThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kRecurrentThreads + static_cast<int>(threadIdx.x);
       i < p.count; i += step)
    p.state[i] = p.initial != nullptr ? to_float(static_cast<const T*>(p.initial)[i]) : 0.0f;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kRecurrentThreads)
    lstm_step_f32(const __grid_constant__ RecurrentParameters p) {
  run_units<LstmUnit<float>>(p);
}
extern "C" __global__ void __launch_bounds__(kRecurrentThreads)
    gru_step_f32(const __grid_constant__ RecurrentParameters p) {
  run_units<GruUnit<float>>(p);
}
extern "C" __global__ void __launch_bounds__(kRecurrentThreads) initial_state_f32(StateParameters p) {
  fill_state<float>(p);
}
extern "C" __global__ void __launch_bounds__(kRecurrentThreads)
    lstm_step_f16(const __grid_constant__ RecurrentParameters p) {
  run_units<LstmUnit<Float16>>(p);
}
extern "C" __global__ void __launch_bounds__(kRecurrentThreads)
    gru_step_f16(const __grid_constant__ RecurrentParameters p) {
  run_units<GruUnit<Float16>>(p);
}
extern "C" __global__ void __launch_bounds__(kRecurrentThreads) initial_state_f16(StateParameters p) {
  fill_state<Float16>(p);
}
extern "C" __global__ void __launch_bounds__(kRecurrentThreads)
    lstm_step_bf16(const __grid_constant__ RecurrentParameters p) {
  run_units<LstmUnit<Bfloat16>>(p);
}
extern "C" __global__ void __launch_bounds__(kRecurrentThreads)
    gru_step_bf16(const __grid_constant__ RecurrentParameters p) {
  run_units<GruUnit<Bfloat16>>(p);
}
extern "C" __global__ void __launch_bounds__(kRecurrentThreads) initial_state_bf16(StateParameters p) {
  fill_state<Bfloat16>(p);
}

}  // namespace tessera::cuda
