// Architectures: 75 80 86 89 90a 100 120
// Gate: arg_extreme_f32 registers 64 shared 0 instruction SHFL
// Gate: arg_extreme_f16 registers 64 shared 0 instruction SHFL
// Gate: arg_extreme_bf16 registers 64 shared 0 instruction SHFL
#include "backends/cuda/kernels/reductions/reduction.h"

namespace tessera::cuda {
namespace {

struct Extreme {
  float value;
  std::int64_t position;  // -1: none yet
};

// Whether a precedes b.
__device__ __forceinline__ bool precedes(const ArgExtremeParameters& p, const Extreme& a, const Extreme& b) {
  if (a.position < 0 || b.position < 0) return b.position < 0;
  if (a.value != a.value || b.value != b.value) return a.value != a.value;
  if (a.value != b.value) return (a.value > b.value) == p.largest;
  return (a.position > b.position) == p.last;
}

template <class T>
__device__ __forceinline__ void arg_extreme(const ArgExtremeParameters& p) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  constexpr int kWarps = kReductionThreads / 32;
  for (std::int64_t result = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp; result < p.results;
       result += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const T* const x = static_cast<const T*>(p.x) + result / p.inner * p.length * p.inner + result % p.inner;
    Extreme best{0.0f, -1};
    for (std::int64_t i = lane; i < p.length; i += 32) {
      const Extreme next{to_float(x[i * p.inner]), i};
      // Not-a-number is passed over, except at the front, where nothing is better.
      if ((next.value == next.value || i == 0) && precedes(p, next, best)) best = next;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      const Extreme other{__shfl_xor_sync(kAllLanes, best.value, step),
                          __shfl_xor_sync(kAllLanes, static_cast<long long>(best.position), step)};
      if (other.position >= 0 && precedes(p, other, best)) best = other;
    }
    if (lane == 0) p.y[result] = best.position;
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kReductionThreads) arg_extreme_f32(ArgExtremeParameters p) {
  arg_extreme<float>(p);
}
extern "C" __global__ void __launch_bounds__(kReductionThreads) arg_extreme_f16(ArgExtremeParameters p) {
  arg_extreme<Float16>(p);
}
extern "C" __global__ void __launch_bounds__(kReductionThreads) arg_extreme_bf16(ArgExtremeParameters p) {
  arg_extreme<Bfloat16>(p);
}

}  // namespace tessera::cuda
