// Architectures: 75 80 86 89 90a 100 120
// Gate: top_k_f32 registers 64 shared 9232 instruction ATOMS
// Gate: top_k_f16 registers 64 shared 9232 instruction ATOMS
// Gate: top_k_bf16 registers 64 shared 9232 instruction ATOMS
// Gate: top_k_i32 registers 64 shared 9232 instruction ATOMS
#include "backends/cuda/kernels/rows/top_k.h"

namespace tessera::cuda {
namespace {

constexpr int kBins = 256, kBinsPerLane = kBins / 32;
static_assert(kTopKThreads == kBins);

struct TopKMemory {
  std::uint64_t ranks[kTopKShared];
  unsigned bins[kBins];
  unsigned bin, before;  // the bin that holds the wanted rank, and how many ranks lie in bins below it
  unsigned selected;
};

// Numbers that are ordered as the elements are. Both zeros are equal, and so are all that are not-a-number.
__device__ __forceinline__ unsigned ascending(float value) {
  if (value != value) return 0xFFFFFFFFu;
  const unsigned bits = value == 0.0f ? 0u : __float_as_uint(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ unsigned ascending(Float16 value) {
  return ascending(to_float(value));
}
__device__ __forceinline__ unsigned ascending(Bfloat16 value) {
  return ascending(to_float(value));
}
__device__ __forceinline__ unsigned ascending(int value) {
  return static_cast<unsigned>(value) ^ 0x80000000u;
}

// The rank of an element: smaller ones come first in the result, and no two of a line are equal. The lower half is the
// element's position.
template <class T>
__device__ __forceinline__ std::uint64_t rank_at(const TopKParameters& p, const T* x, unsigned position) {
  const unsigned order = ascending(x[position * p.inner]);
  return static_cast<std::uint64_t>(p.largest ? ~order : order) << 32 | position;
}

// By the first warp: finds the bin of the `wanted`-th smallest rank, counted from 1.
__device__ __forceinline__ void find_bin(TopKMemory& memory, unsigned wanted) {
  const int lane = static_cast<int>(threadIdx.x);
  unsigned own = 0;
#pragma unroll
  for (int i = 0; i < kBinsPerLane; ++i) own += memory.bins[lane * kBinsPerLane + i];
  unsigned up_to_own = own;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const unsigned other = __shfl_up_sync(kAllLanes, up_to_own, static_cast<unsigned>(step));
    if (lane >= step) up_to_own += other;
  }
  unsigned before = up_to_own - own;
  if (before >= wanted || up_to_own < wanted) return;
  unsigned bin = static_cast<unsigned>(lane * kBinsPerLane);
  while (before + memory.bins[bin] < wanted) before += memory.bins[bin++];
  memory.bin = bin;
  memory.before = before;
}

// Returns, to all threads, a bound that exactly k ranks of the line do not exceed. Each round counts the values of one
// byte, from the highest, among the ranks that agree with the bound in the bytes above.
template <class T>
__device__ __forceinline__ std::uint64_t bound_of_line(const TopKParameters& p, const T* x, TopKMemory& memory) {
  std::uint64_t prefix = 0;
  unsigned wanted = p.k;
#pragma unroll 1
  for (int shift = 56;; shift -= 8) {
    memory.bins[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < p.length; i += kTopKThreads) {
      const std::uint64_t rank = rank_at(p, x, i);
      if (shift == 56 || rank >> (shift + 8) == prefix) atomicAdd(&memory.bins[rank >> shift & 0xFFu], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 32) find_bin(memory, wanted);
    __syncthreads();
    prefix = prefix << 8 | memory.bin;
    wanted -= memory.before;
    // The whole bin is selected; at the latest in the last round, where a bin holds a single rank.
    if (memory.bins[memory.bin] == wanted) return (prefix << shift) + ((std::uint64_t{1} << shift) - 1);
    __syncthreads();  // bins have been read
  }
}

// Writes the ranks of the k best elements in any order.
template <class T>
__device__ __forceinline__ void select(const TopKParameters& p, const T* x, TopKMemory& memory, std::uint64_t* ranks) {
  if (p.k == p.length) {
    for (unsigned i = threadIdx.x; i < p.length; i += kTopKThreads) ranks[i] = rank_at(p, x, i);
    __syncthreads();
    return;
  }
  const std::uint64_t bound = bound_of_line(p, x, memory);
  if (threadIdx.x == 0) memory.selected = 0;
  __syncthreads();
  for (unsigned i = threadIdx.x; i < p.length; i += kTopKThreads) {
    const std::uint64_t rank = rank_at(p, x, i);
    if (rank <= bound) ranks[atomicAdd(&memory.selected, 1u)] = rank;
  }
  __syncthreads();
}

__device__ __forceinline__ void put_in_order(std::uint64_t* ranks, unsigned low, unsigned high, unsigned count) {
  if (high >= count) return;  // beyond the end, everything is larger
  const std::uint64_t first = ranks[low], second = ranks[high];
  if (first <= second) return;
  ranks[low] = second;
  ranks[high] = first;
}

// A bitonic sort whose comparisons all put the smaller one first, so that any count can be sorted.
__device__ __forceinline__ void sort(std::uint64_t* ranks, unsigned count) {
  unsigned pairs = 1;  // half of the next power of two
  while (2 * pairs < count) pairs *= 2;
#pragma unroll 1
  for (unsigned half = 1; half < count; half *= 2) {
    // Merges sorted runs of `half`: first each element with its mirror image in the other run.
    for (unsigned pair = threadIdx.x; pair < pairs; pair += kTopKThreads) {
      const unsigned start = pair / half * 2 * half, offset = pair % half;
      put_in_order(ranks, start + offset, start + 2 * half - 1 - offset, count);
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned step = half / 2; step > 0; step /= 2) {
      for (unsigned pair = threadIdx.x; pair < pairs; pair += kTopKThreads) {
        const unsigned low = pair / step * 2 * step + pair % step;
        put_in_order(ranks, low, low + step, count);
      }
      __syncthreads();
    }
  }
}

template <class T>
__device__ __forceinline__ void top_k(const TopKParameters& p) {
  auto& memory = static_shared<TopKMemory>();
  std::uint64_t* const ranks =
      p.ranks != nullptr ? p.ranks + static_cast<std::int64_t>(blockIdx.x) * p.k : memory.ranks;
  for (std::int64_t line = blockIdx.x; line < p.lines; line += gridDim.x) {
    const std::int64_t outer = line / p.inner, inner = line % p.inner;
    const T* const x = static_cast<const T*>(p.x) + outer * p.length * p.inner + inner;
    select(p, x, memory, ranks);
    sort(ranks, p.k);
    for (unsigned i = threadIdx.x; i < p.k; i += kTopKThreads) {
      const auto position = static_cast<unsigned>(ranks[i] & 0xFFFFFFFFu);
      const std::int64_t to = (outer * p.k + i) * p.inner + inner;
      if (p.values != nullptr) static_cast<T*>(p.values)[to] = x[position * p.inner];
      if (p.indices != nullptr) p.indices[to] = position;
    }
    __syncthreads();  // the ranks have been read
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kTopKThreads) top_k_f32(TopKParameters p) {
  top_k<float>(p);
}
extern "C" __global__ void __launch_bounds__(kTopKThreads) top_k_f16(TopKParameters p) {
  top_k<Float16>(p);
}
extern "C" __global__ void __launch_bounds__(kTopKThreads) top_k_bf16(TopKParameters p) {
  top_k<Bfloat16>(p);
}
extern "C" __global__ void __launch_bounds__(kTopKThreads) top_k_i32(TopKParameters p) {
  top_k<int>(p);
}

}  // namespace tessera::cuda
