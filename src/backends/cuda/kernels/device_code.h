// The language of kernels: CUDA C++ without its library, and the PTX functions of ptx.h. nvcc compiles it for
// devices, any other compiler for the emulation (tests/cuda/emulation), which must be on the path of includes.
//
// Rules that keep a kernel the same for both: shared memory comes from static_shared and dynamic_shared, never from
// __shared__; numbers narrower than float are those of number_types.h; inline assembly stands in ptx.h alone; kernels
// are extern "C", take structures or plain values, and their arrays in registers are indexed by constants once
// unrolled.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/number_types.h"
#if defined(__CUDACC__)
#include "backends/cuda/kernels/ptx.h"
#else
#include "emulation/ptx.h"
#endif

namespace tessera::cuda {

// The object of type T that all threads of the block share, not initialised. A kernel that needs two gives them two
// types.
#if defined(__CUDACC__)
template <class T>
__device__ __forceinline__ T& static_shared() {
  __shared__ T object;
  return object;
}
#else
template <class T>
T& static_shared(Site site = Site::current()) {
  static const char key = 0;
  return emulation::static_shared<T>(&key, site);
}
#endif

// The memory whose size the launch gives; it begins at a multiple of 1024 bytes.
__device__ __forceinline__ unsigned char* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ __align__(1024) unsigned char tessera_dynamic_shared[];
  return tessera_dynamic_shared;
#else
  return reinterpret_cast<unsigned char*>(emulation::Block::current().shared().dynamic());
#endif
}

__device__ __forceinline__ float to_float(float value) {
  return value;
}
__device__ __forceinline__ float to_float(Float16 value) {
  return ptx::from_f16(value);
}
__device__ __forceinline__ float to_float(Bfloat16 value) {
  return ptx::from_bf16(value);
}
__device__ __forceinline__ float to_float(std::int8_t value) {
  return static_cast<float>(value);
}
__device__ __forceinline__ float to_float(int value) {
  return static_cast<float>(value);
}

// Rounds to nearest with ties to even; integers saturate.
template <class T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ Float16 from_float<Float16>(float value) {
  return ptx::to_f16(value);
}
template <>
__device__ __forceinline__ Bfloat16 from_float<Bfloat16>(float value) {
  return ptx::to_bf16(value);
}
template <>
__device__ __forceinline__ std::int8_t from_float<std::int8_t>(float value) {
  return static_cast<std::int8_t>(__float2int_rn(fminf(fmaxf(value, -128.0f), 127.0f)));
}

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

}  // namespace tessera::cuda
