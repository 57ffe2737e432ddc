// Architectures: 75 80 86 89 90a 100 120
// Gate: gather_8 registers 64 shared 0 instruction STG
// Gate: gather_16 registers 64 shared 0 instruction STG
// Gate: gather_32 registers 64 shared 0 instruction STG
// Gate: gather_64 registers 64 shared 0 instruction STG
// Gate: scatter_8 registers 64 shared 0 instruction STG
// Gate: scatter_16 registers 64 shared 0 instruction STG
// Gate: scatter_32 registers 64 shared 0 instruction STG
// Gate: scatter_64 registers 64 shared 0 instruction STG
// Gate: gather_elements_8 registers 64 shared 0 instruction STG
// Gate: gather_elements_16 registers 64 shared 0 instruction STG
// Gate: gather_elements_32 registers 64 shared 0 instruction STG
// Gate: gather_elements_64 registers 64 shared 0 instruction STG
// Gate: scatter_elements_8 registers 64 shared 0 instruction STG
// Gate: scatter_elements_16 registers 64 shared 0 instruction STG
// Gate: scatter_elements_32 registers 64 shared 0 instruction STG
// Gate: scatter_elements_64 registers 64 shared 0 instruction STG
#include "backends/cuda/kernels/movement/gather.h"

namespace tessera::cuda {
namespace {

// Returns the index as one counted from the front, or -1 after setting the fault.
__device__ __forceinline__ std::int64_t checked_index(const void* indices, std::int64_t at, bool wide,
                                                      std::int64_t size, IndexFault* fault) {
  const std::int64_t given =
      wide ? static_cast<const std::int64_t*>(indices)[at] : static_cast<const std::int32_t*>(indices)[at];
  const std::int64_t index = given < 0 ? given + size : given;
  if (index >= 0 && index < size) return index;
  if (atomicCAS(&fault->is_set, 0, 1) == 0) {
    fault->index = given;
    fault->size = size;
  }
  return -1;
}

template <class T, bool kScatters>
__device__ __forceinline__ void move(const void* from, void* to, std::int64_t data, std::int64_t value) {
  static_cast<T*>(to)[kScatters ? data : value] = static_cast<const T*>(from)[kScatters ? value : data];
}

template <class T, bool kScatters>
__device__ __forceinline__ void move_tuples(const GatherParameters& p) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kGatherThreads;
  for (std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kGatherThreads + static_cast<int>(threadIdx.x);
       element < p.count; element += step) {
    const std::int64_t inner = element % p.inner, row = element / p.inner;
    const std::int64_t tuple = row % p.tuples, outer = row / p.tuples;
    std::int64_t place = outer * p.data_outer_stride + inner;
    bool inside = true;
#pragma unroll
    for (int i = 0; i < kGatherAxes; ++i) {
      if (i >= p.width) break;
      const std::int64_t at = outer * p.index_outer_stride + tuple * p.width + i;
      const std::int64_t index = checked_index(p.indices, at, p.wide, p.sizes[i], p.fault);
      inside = inside && index >= 0;
      place += index * p.strides[i];
    }
    if (inside) move<T, kScatters>(p.from, p.to, place, element);
  }
}

template <class T, bool kScatters>
__device__ __forceinline__ void move_elements(const GatherElementsParameters& p) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kGatherThreads;
  for (std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kGatherThreads + static_cast<int>(threadIdx.x);
       element < p.count; element += step) {
    std::int64_t rest = element, place = 0;
#pragma unroll
    for (int axis = kGatherAxes - 1; axis >= 0; --axis) {
      place += rest % p.sizes[axis] * p.strides[axis];
      rest /= p.sizes[axis];
    }
    const std::int64_t index = checked_index(p.indices, element, p.wide, p.axis_size, p.fault);
    if (index >= 0) move<T, kScatters>(p.from, p.to, place + index * p.axis_stride, element);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kGatherThreads) gather_8(const __grid_constant__ GatherParameters p) {
  move_tuples<std::uint8_t, false>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads) gather_16(const __grid_constant__ GatherParameters p) {
  move_tuples<std::uint16_t, false>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads) gather_32(const __grid_constant__ GatherParameters p) {
  move_tuples<std::uint32_t, false>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads) gather_64(const __grid_constant__ GatherParameters p) {
  move_tuples<std::uint64_t, false>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads) scatter_8(const __grid_constant__ GatherParameters p) {
  move_tuples<std::uint8_t, true>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads) scatter_16(const __grid_constant__ GatherParameters p) {
  move_tuples<std::uint16_t, true>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads) scatter_32(const __grid_constant__ GatherParameters p) {
  move_tuples<std::uint32_t, true>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads) scatter_64(const __grid_constant__ GatherParameters p) {
  move_tuples<std::uint64_t, true>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads)
    gather_elements_8(const __grid_constant__ GatherElementsParameters p) {
  move_elements<std::uint8_t, false>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads)
    gather_elements_16(const __grid_constant__ GatherElementsParameters p) {
  move_elements<std::uint16_t, false>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads)
    gather_elements_32(const __grid_constant__ GatherElementsParameters p) {
  move_elements<std::uint32_t, false>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads)
    gather_elements_64(const __grid_constant__ GatherElementsParameters p) {
  move_elements<std::uint64_t, false>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads)
    scatter_elements_8(const __grid_constant__ GatherElementsParameters p) {
  move_elements<std::uint8_t, true>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads)
    scatter_elements_16(const __grid_constant__ GatherElementsParameters p) {
  move_elements<std::uint16_t, true>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads)
    scatter_elements_32(const __grid_constant__ GatherElementsParameters p) {
  move_elements<std::uint32_t, true>(p);
}
extern "C" __global__ void __launch_bounds__(kGatherThreads)
    scatter_elements_64(const __grid_constant__ GatherElementsParameters p) {
  move_elements<std::uint64_t, true>(p);
}

}  // namespace tessera::cuda
