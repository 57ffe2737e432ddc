// Adds the parts of a product whose depth was split, in order, and applies the epilogue. One thread per element.
//
// Architectures: 75 80 86 89 90a 100 120
// Gate: product_splits_f32 registers 64 shared 0 instruction FADD
// Gate: product_splits_f16 registers 64 shared 0 instruction FADD
// Gate: product_splits_bf16 registers 64 shared 0 instruction FADD
// Gate: product_splits_s8 registers 64 shared 0 instruction IADD
#include "backends/cuda/kernels/products/epilogue.h"

namespace tessera::cuda {
namespace {

template <class T>
__device__ __forceinline__ void add_splits(const ProductParameters& p) {
  using Sum = typename ProductTypes<T>::Sum;
  const std::int64_t count = static_cast<std::int64_t>(p.rows) * p.columns;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (at >= count) return;
  Sum sum = 0;
  for (int split = 0; split < p.splits; ++split) sum += static_cast<const Sum*>(p.partial)[split * count + at];
  finish_sum<T>(p, static_cast<int>(at / p.columns), static_cast<int>(at % p.columns), static_cast<float>(sum));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) product_splits_f32(ProductParameters p) {
  add_splits<float>(p);
}
extern "C" __global__ void __launch_bounds__(256) product_splits_f16(ProductParameters p) {
  add_splits<Float16>(p);
}
extern "C" __global__ void __launch_bounds__(256) product_splits_bf16(ProductParameters p) {
  add_splits<Bfloat16>(p);
}
extern "C" __global__ void __launch_bounds__(256) product_splits_s8(ProductParameters p) {
  add_splits<std::int8_t>(p);
}

}  // namespace tessera::cuda
