// Architectures: 75 80 86 89 90a 100 120
// Gate: strided_copy_8 registers 64 shared 0 instruction STG
// Gate: strided_copy_16 registers 64 shared 0 instruction STG
// Gate: strided_copy_32 registers 64 shared 0 instruction STG
// Gate: strided_copy_64 registers 64 shared 0 instruction STG
#include "backends/cuda/kernels/movement/strided_copy.h"

namespace tessera::cuda {
namespace {

template <class T>
__device__ __forceinline__ void strided_copy(const CopyParameters& p) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kCopyThreads;
  for (std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kCopyThreads + static_cast<int>(threadIdx.x);
       element < p.count; element += step) {
    std::int64_t rest = element, from = 0, to = 0;
#pragma unroll
    for (int axis = kCopyAxes - 1; axis >= 0; --axis) {
      const std::int64_t index = rest % p.sizes[axis];
      rest /= p.sizes[axis];
      from += index * p.x_strides[axis];
      to += index * p.y_strides[axis];
    }
    static_cast<T*>(p.y)[to] = static_cast<const T*>(p.x)[from];
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kCopyThreads) strided_copy_8(const __grid_constant__ CopyParameters p) {
  strided_copy<std::uint8_t>(p);
}
extern "C" __global__ void __launch_bounds__(kCopyThreads) strided_copy_16(const __grid_constant__ CopyParameters p) {
  strided_copy<std::uint16_t>(p);
}
extern "C" __global__ void __launch_bounds__(kCopyThreads) strided_copy_32(const __grid_constant__ CopyParameters p) {
  strided_copy<std::uint32_t>(p);
}
extern "C" __global__ void __launch_bounds__(kCopyThreads) strided_copy_64(const __grid_constant__ CopyParameters p) {
  strided_copy<std::uint64_t>(p);
}

}  // namespace tessera::cuda
