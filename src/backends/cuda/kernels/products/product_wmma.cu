// Second rung for the types whose tensor cores are in sm_75 (wmma_body.h).
//
// Architectures: 75 80 86 89 90a 100 120
// Gate: product_wmma_f16 registers 128 shared 30000 instruction HMMA
// Gate: product_wmma_s8 registers 128 shared 22000 instruction IMMA
#include "backends/cuda/kernels/products/wmma_body.h"

namespace tessera::cuda {
namespace {

struct F16Fragments {
  static constexpr int kRegisters = 8;
  static __device__ __forceinline__ void load_a(std::uint32_t (&r)[8], const Float16* matrix, unsigned stride) {
    ptx::wmma_load_a_f16(r, matrix, stride);
  }
  static __device__ __forceinline__ void load_b(std::uint32_t (&r)[8], const Float16* matrix, unsigned stride) {
    ptx::wmma_load_b_f16(r, matrix, stride);
  }
  static __device__ __forceinline__ void multiply(float (&d)[8], const std::uint32_t (&a)[8],
                                                  const std::uint32_t (&b)[8]) {
    ptx::wmma_f16(d, a, b);
  }
  static __device__ __forceinline__ void store(float* matrix, const float (&d)[8], unsigned stride) {
    ptx::wmma_store_f32(matrix, d, stride);
  }
};

struct S8Fragments {
  static constexpr int kRegisters = 2;
  static __device__ __forceinline__ void load_a(std::uint32_t (&r)[2], const std::int8_t* matrix, unsigned stride) {
    ptx::wmma_load_a_s8(r, matrix, stride);
  }
  static __device__ __forceinline__ void load_b(std::uint32_t (&r)[2], const std::int8_t* matrix, unsigned stride) {
    ptx::wmma_load_b_s8(r, matrix, stride);
  }
  static __device__ __forceinline__ void multiply(int (&d)[8], const std::uint32_t (&a)[2],
                                                  const std::uint32_t (&b)[2]) {
    ptx::wmma_s8(d, a, b);
  }
  static __device__ __forceinline__ void store(int* matrix, const int (&d)[8], unsigned stride) {
    ptx::wmma_store_s32(matrix, d, stride);
  }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(128) product_wmma_f16(ProductParameters p) {
  multiply_wmma<Float16, F16Fragments>(p);
}
extern "C" __global__ void __launch_bounds__(128) product_wmma_s8(ProductParameters p) {
  multiply_wmma<std::int8_t, S8Fragments>(p);
}

}  // namespace tessera::cuda
