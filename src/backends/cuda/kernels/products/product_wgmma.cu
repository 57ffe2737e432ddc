// Fourth rung: 128×128 tiles of d by two warpgroups of 64 rows, multiplied by wgmma from shared memory. One thread of a
// third warpgroup lets the tensor memory accelerator bring the operands in four stages of 128 bytes of the depth; rows
// are swizzled over 128 bytes. Elements outside the matrices come as zeros.
//
// Architectures: 90a
// Gate: product_wgmma_f16 registers 168 shared 1100 instruction HGMMA
// Gate: product_wgmma_bf16 registers 168 shared 1100 instruction HGMMA
// Gate: product_wgmma_s8 registers 168 shared 1100 instruction IGMMA
#include "backends/cuda/kernels/products/epilogue.h"

namespace tessera::cuda {
namespace {

constexpr int kSide = 128, kStepBytes = 128, kOperandBytes = kSide * kStepBytes, kPatchStride = 129;
constexpr unsigned kConsumerWarps = 8;

struct Barriers {
  std::uint64_t full[kWgmmaStages], empty[kWgmmaStages];
};

// Describes rows of 128 swizzled bytes to wgmma: eight rows are 1024 bytes.
__device__ __forceinline__ std::uint64_t describe(const unsigned char* matrix) {
  const std::uint64_t start = (ptx::shared_address(matrix) & 0x3FFFF) >> 4;
  return start | std::uint64_t{1} << 16 | std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
}

struct F16 {
  using Element = Float16;
  static __device__ __forceinline__ void multiply(float (&d)[64], std::uint64_t a, std::uint64_t b, bool accumulate) {
    ptx::wgmma_m64n128k16_f16(d, a, b, accumulate);
  }
};
struct Bf16 {
  using Element = Bfloat16;
  static __device__ __forceinline__ void multiply(float (&d)[64], std::uint64_t a, std::uint64_t b, bool accumulate) {
    ptx::wgmma_m64n128k16_bf16(d, a, b, accumulate);
  }
};
struct S8 {
  using Element = std::int8_t;
  static __device__ __forceinline__ void multiply(int (&d)[64], std::uint64_t a, std::uint64_t b, bool accumulate) {
    ptx::wgmma_m64n128k32_s8(d, a, b, accumulate);
  }
};

template <class Element>
__device__ __forceinline__ void bring_operands(const TensorMap& a, const TensorMap& b, Barriers& barriers,
                                               const DepthSteps& steps) {
  constexpr int kStep = kStepBytes / static_cast<int>(sizeof(Element));
  unsigned char* stages = dynamic_shared();
  for (int step = steps.begin; step < steps.end; ++step) {
    const int count = step - steps.begin, stage = count % kWgmmaStages;
    // The first round finds every stage empty: the parity of the phase before the first.
    ptx::phase_barrier_wait(&barriers.empty[stage], (count / kWgmmaStages & 1) ^ 1);
    unsigned char* to = stages + stage * 2 * kOperandBytes;
    ptx::phase_barrier_expect(&barriers.full[stage], 2 * kOperandBytes);
    ptx::copy_tile_async(to, &a, step * kStep, static_cast<int>(blockIdx.y) * kSide, &barriers.full[stage]);
    ptx::copy_tile_async(to + kOperandBytes, &b, step * kStep, static_cast<int>(blockIdx.x) * kSide,
                         &barriers.full[stage]);
  }
}

template <class Kind, class Sum>
__device__ __forceinline__ void multiply_operands(Barriers& barriers, const DepthSteps& steps, int warpgroup,
                                                  Sum (&sums)[64]) {
  const unsigned char* stages = dynamic_shared();
  const bool first_lane = threadIdx.x % 32 == 0;
  for (int step = steps.begin; step < steps.end; ++step) {
    const int count = step - steps.begin, stage = count % kWgmmaStages;
    ptx::phase_barrier_wait(&barriers.full[stage], count / kWgmmaStages & 1);
    const unsigned char* a = stages + stage * 2 * kOperandBytes + warpgroup * 64 * kStepBytes;
    const unsigned char* b = stages + stage * 2 * kOperandBytes + kOperandBytes;
    ptx::wgmma_fence();
#pragma unroll
    for (int part = 0; part < kStepBytes; part += 32)
      Kind::multiply(sums, describe(a + part), describe(b + part), true);
    ptx::wgmma_commit();
    // The products of the step before have read their stage.
    ptx::wgmma_wait<1>(sums);
    if (count > 0 && first_lane) ptx::phase_barrier_arrive(&barriers.empty[(count - 1) % kWgmmaStages]);
  }
  ptx::wgmma_wait<0>(sums);
}

template <class Kind>
__device__ __forceinline__ void multiply_wgmma(const TensorMap& a, const TensorMap& b, const ProductParameters& p) {
  using T = typename Kind::Element;
  using Sum = typename ProductTypes<T>::Sum;
  auto& barriers = static_shared<Barriers>();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kWgmmaStages; ++stage) {
      ptx::phase_barrier_init(&barriers.full[stage], 1);
      ptx::phase_barrier_init(&barriers.empty[stage], kConsumerWarps);
    }
    ptx::fence_phase_barrier_init();
  }
  __syncthreads();
  const DepthSteps steps = steps_of_split(p, kStepBytes / static_cast<int>(sizeof(T)));
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  if (warpgroup == 2) {
    if (threadIdx.x == 256) bring_operands<T>(a, b, barriers, steps);
    return;
  }
  Sum sums[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) sums[i] = 0;
  multiply_operands<Kind>(barriers, steps, warpgroup, sums);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Both warpgroups have read all stages, which become patches of 16×128 sums, one per warp.
  ptx::barrier_sync(1, 256);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Sum* patch = reinterpret_cast<Sum*>(dynamic_shared()) + warp * 16 * kPatchStride;
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    patch[(lane / 4 + i / 2 % 2 * 8) * kPatchStride + i / 4 * 8 + lane % 4 * 2 + i % 2] = sums[i];
  }
  __syncwarp();
  store_patch<T>(p, patch, kPatchStride, 16, kSide, static_cast<int>(blockIdx.y) * kSide + 16 * warp,
                 static_cast<int>(blockIdx.x) * kSide, lane, 32);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(384)
    product_wgmma_f16(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, ProductParameters p) {
  multiply_wgmma<F16>(a, b, p);
}
extern "C" __global__ void __launch_bounds__(384)
    product_wgmma_bf16(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, ProductParameters p) {
  multiply_wgmma<Bf16>(a, b, p);
}
extern "C" __global__ void __launch_bounds__(384)
    product_wgmma_s8(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, ProductParameters p) {
  multiply_wgmma<S8>(a, b, p);
}

}  // namespace tessera::cuda
