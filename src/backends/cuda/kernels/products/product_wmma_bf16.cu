// Second rung for bfloat16, whose tensor cores begin with sm_80 (wmma_body.h).
//
// Architectures: 80 86 89 90a 100 120
// Gate: product_wmma_bf16 registers 128 shared 30000 instruction HMMA
#include "backends/cuda/kernels/products/wmma_body.h"

namespace tessera::cuda {
namespace {

struct Bf16Fragments {
  static constexpr int kRegisters = 4;
  static __device__ __forceinline__ void load_a(std::uint32_t (&r)[4], const Bfloat16* matrix, unsigned stride) {
    ptx::wmma_load_a_bf16(r, matrix, stride);
  }
  static __device__ __forceinline__ void load_b(std::uint32_t (&r)[4], const Bfloat16* matrix, unsigned stride) {
    ptx::wmma_load_b_bf16(r, matrix, stride);
  }
  static __device__ __forceinline__ void multiply(float (&d)[8], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[4]) {
    ptx::wmma_bf16(d, a, b);
  }
  static __device__ __forceinline__ void store(float* matrix, const float (&d)[8], unsigned stride) {
    ptx::wmma_store_f32(matrix, d, stride);
  }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(128) product_wmma_bf16(ProductParameters p) {
  multiply_wmma<Bfloat16, Bf16Fragments>(p);
}

}  // namespace tessera::cuda
