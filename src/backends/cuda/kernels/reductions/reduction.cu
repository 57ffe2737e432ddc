// Architectures: 75 80 86 89 90a 100 120
// Gate: reduce_f32 registers 64 shared 64 instruction SHFL
// Gate: reduce_f16 registers 64 shared 64 instruction SHFL
// Gate: reduce_bf16 registers 64 shared 64 instruction SHFL
#include <math.h>

#include "backends/cuda/kernels/reductions/reduction.h"

namespace tessera::cuda {
namespace {

// Blocks that share a multiprocessor: 64 registers per thread. Left to itself, ptxas spills on sm_100.
constexpr int kResidentBlocks = 4;

struct ReductionResults {
  float values[kReductionThreads / 32];
};

__device__ __forceinline__ std::int64_t offset_of(std::int64_t position, const std::int64_t* sizes,
                                                  const std::int64_t* strides) {
  std::int64_t offset = 0;
#pragma unroll
  for (int axis = kReductionAxes - 1; axis >= 0; --axis) {
    offset += position % sizes[axis] * strides[axis];
    position /= sizes[axis];
  }
  return offset;
}

__device__ __forceinline__ float start_of(ReductionKind kind) {
  if (kind == ReductionKind::maximum) return -INFINITY;
  if (kind == ReductionKind::minimum) return INFINITY;
  return kind == ReductionKind::product ? 1.0f : 0.0f;
}

// Not-a-number wins.
__device__ __forceinline__ float combine(ReductionKind kind, float a, float b) {
  if (kind == ReductionKind::maximum) return a > b || a != a ? a : b;
  if (kind == ReductionKind::minimum) return a < b || a != a ? a : b;
  return kind == ReductionKind::product ? a * b : a + b;
}

__device__ __forceinline__ float term_of(ReductionKind kind, float x) {
  if (kind == ReductionKind::l1) return fabsf(x);
  return kind == ReductionKind::l2 || kind == ReductionKind::sum_of_squares ? x * x : x;
}

__device__ __forceinline__ float combine_block(ReductionKind kind, float value) {
  auto& results = static_shared<ReductionResults>().values;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = combine(kind, value, __shfl_xor_sync(kAllLanes, value, step));
  if (threadIdx.x % 32 == 0) results[threadIdx.x / 32] = value;
  __syncthreads();
  value = results[0];
#pragma unroll
  for (int warp = 1; warp < kReductionThreads / 32; ++warp) value = combine(kind, value, results[warp]);
  __syncthreads();  // the next reduction writes there
  return value;
}

// The reduction of a result by this thread alone, or by all threads of the block.
template <class T, class Term>
__device__ __forceinline__ float reduce_by(const ReductionParameters& p, const T* x, ReductionKind kind, Term term) {
  const std::int64_t first = p.by_threads ? 0 : static_cast<int>(threadIdx.x);
  const std::int64_t step = p.by_threads ? 1 : kReductionThreads;
  float value = start_of(kind);
  for (std::int64_t i = first; i < p.reduced; i += step)
    value = combine(kind, value, term(to_float(x[offset_of(i, p.reduced_sizes, p.reduced_strides)])));
  return p.by_threads ? value : combine_block(kind, value);
}

template <class T>
__device__ __forceinline__ float reduce_one(const ReductionParameters& p, const T* x) {
  if (p.kind == ReductionKind::log_sum_exp) {
    const float most = reduce_by(p, x, ReductionKind::maximum, [](float value) { return value; });
    const float shift = isinf(most) ? 0.0f : most;
    return shift + logf(reduce_by(p, x, ReductionKind::sum, [=](float value) { return expf(value - shift); }));
  }
  const ReductionKind kind = p.kind;
  const float value = reduce_by(p, x, kind, [=](float element) { return term_of(kind, element); });
  if (kind == ReductionKind::mean) return value / static_cast<float>(p.reduced);
  if (kind == ReductionKind::l2) return sqrtf(value);
  return kind == ReductionKind::log_sum ? logf(value) : value;
}

template <class T>
__device__ __forceinline__ void reduce(const ReductionParameters& p) {
  const bool writes = p.by_threads || threadIdx.x == 0;
  const std::int64_t each = p.by_threads ? kReductionThreads : 1;
  const std::int64_t first = blockIdx.x * each + (p.by_threads ? static_cast<int>(threadIdx.x) : 0);
  for (std::int64_t result = first; result < p.results; result += gridDim.x * each) {
    const T* const x = static_cast<const T*>(p.x) + offset_of(result, p.kept_sizes, p.kept_strides);
    const float value = reduce_one(p, x);
    if (writes) static_cast<T*>(p.y)[result] = from_float<T>(value);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kReductionThreads, kResidentBlocks)
    reduce_f32(const __grid_constant__ ReductionParameters p) {
  reduce<float>(p);
}
extern "C" __global__ void __launch_bounds__(kReductionThreads, kResidentBlocks)
    reduce_f16(const __grid_constant__ ReductionParameters p) {
  reduce<Float16>(p);
}
extern "C" __global__ void __launch_bounds__(kReductionThreads, kResidentBlocks)
    reduce_bf16(const __grid_constant__ ReductionParameters p) {
  reduce<Bfloat16>(p);
}

}  // namespace tessera::cuda
