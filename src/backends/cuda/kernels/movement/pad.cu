// Architectures: 75 80 86 89 90a 100 120
// Gate: pad_8 registers 64 shared 0 instruction STG
// Gate: pad_16 registers 64 shared 0 instruction STG
// Gate: pad_32 registers 64 shared 0 instruction STG
// Gate: pad_64 registers 64 shared 0 instruction STG
#include "backends/cuda/kernels/movement/pad.h"

namespace tessera::cuda {
namespace {

// The position in x for one outside it, or -1 where padding has a value of its own.
__device__ __forceinline__ std::int64_t source_of(std::int64_t at, std::int64_t size, PaddingMode mode) {
  if (at >= 0 && at < size) return at;
  if (mode == PaddingMode::constant) return -1;
  if (mode == PaddingMode::edge) return at < 0 ? 0 : size - 1;
  const std::int64_t period = mode == PaddingMode::wrap ? size : size == 1 ? 1 : 2 * (size - 1);
  at %= period;
  if (at < 0) at += period;
  return at < size ? at : period - at;
}

template <class T>
__device__ __forceinline__ void pad(const PadParameters& p) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kPadThreads;
  for (std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kPadThreads + static_cast<int>(threadIdx.x);
       element < p.count; element += step) {
    std::int64_t rest = element, from = 0;
    bool inside = true;
#pragma unroll
    for (int axis = kPadAxes - 1; axis >= 0; --axis) {
      const std::int64_t at = source_of(rest % p.y_sizes[axis] - p.begin[axis], p.x_sizes[axis], p.mode);
      rest /= p.y_sizes[axis];
      inside = inside && at >= 0;
      from += at * p.x_strides[axis];
    }
    const T value = p.value != nullptr ? *static_cast<const T*>(p.value) : T{0};
    static_cast<T*>(p.y)[element] = inside ? static_cast<const T*>(p.x)[from] : value;
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kPadThreads) pad_8(const __grid_constant__ PadParameters p) {
  pad<std::uint8_t>(p);
}
extern "C" __global__ void __launch_bounds__(kPadThreads) pad_16(const __grid_constant__ PadParameters p) {
  pad<std::uint16_t>(p);
}
extern "C" __global__ void __launch_bounds__(kPadThreads) pad_32(const __grid_constant__ PadParameters p) {
  pad<std::uint32_t>(p);
}
extern "C" __global__ void __launch_bounds__(kPadThreads) pad_64(const __grid_constant__ PadParameters p) {
  pad<std::uint64_t>(p);
}

}  // namespace tessera::cuda
