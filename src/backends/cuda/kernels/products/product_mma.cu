// Third rung: 128×128 tiles of d by eight warps of 64×32, multiplied by mma.sync. Three stages of operands, 64 bytes of
// the depth each, are under way by cp.async. All types are alike in bytes: a fragment of a is 16 rows by 32 bytes, one
// of b 8 columns by 32 bytes, and ldmatrix distributes both.
//
// Architectures: 80 86 89 90a 100 120
// Gate: product_mma_f16 registers 168 shared 49152 instruction HMMA
// Gate: product_mma_bf16 registers 168 shared 49152 instruction HMMA
// Gate: product_mma_tf32 registers 168 shared 49152 instruction HMMA
// Gate: product_mma_s8 registers 168 shared 49152 instruction IMMA
#include "backends/cuda/kernels/products/epilogue.h"

namespace tessera::cuda {
namespace {

constexpr int kSide = 128, kStepBytes = 64, kStages = 3, kChunk = 16, kChunks = kStepBytes / kChunk;
constexpr int kPatchStride = 33;

struct alignas(128) Stage {
  unsigned char a[kSide * kStepBytes], b[kSide * kStepBytes];
};
struct Stages {
  Stage stages[kStages];
};

// The offset of a chunk of 16 bytes of a row. Chunks are swizzled, so that eight rows in sequence use all banks.
__device__ __forceinline__ int place_of(int row, int chunk) {
  return row * kStepBytes + ((chunk ^ (row / 2 % kChunks)) * kChunk);
}

// Issues the copy of 128 rows by 64 bytes. Rows and bytes outside the matrix become zeros.
template <class T>
__device__ __forceinline__ void load_operand(unsigned char* tile, const T* matrix, std::int64_t stride, int first_row,
                                             int rows, int first, int depth) {
  constexpr int kPerChunk = kChunk / static_cast<int>(sizeof(T));
#pragma unroll
  for (int i = 0; i < kSide * kChunks / 256; ++i) {
    const int number = i * 256 + static_cast<int>(threadIdx.x), row = number / kChunks, chunk = number % kChunks;
    const int at = first_row + row, k = first + chunk * kPerChunk;
    const int elements = at < rows && k < depth ? (depth - k < kPerChunk ? depth - k : kPerChunk) : 0;
    const T* source = elements > 0 ? matrix + at * stride + k : matrix;
    ptx::copy_async<16>(tile + place_of(row, chunk), source, static_cast<unsigned>(elements * sizeof(T)));
  }
}

struct F16 {
  using Element = Float16;
  static __device__ __forceinline__ void multiply(float (&d)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[2]) {
    ptx::mma_m16n8k16_f16(d, a, b);
  }
};
struct Bf16 {
  using Element = Bfloat16;
  static __device__ __forceinline__ void multiply(float (&d)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[2]) {
    ptx::mma_m16n8k16_bf16(d, a, b);
  }
};
struct S8 {
  using Element = std::int8_t;
  static __device__ __forceinline__ void multiply(int (&d)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[2]) {
    ptx::mma_m16n8k32_s8(d, a, b);
  }
};
struct Tf32 {
  using Element = float;
  static __device__ __forceinline__ void multiply(float (&d)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[2]) {
    std::uint32_t rounded_a[4], rounded_b[2];
    for (int i = 0; i < 4; ++i) rounded_a[i] = ptx::to_tf32(__uint_as_float(a[i]));
    for (int i = 0; i < 2; ++i) rounded_b[i] = ptx::to_tf32(__uint_as_float(b[i]));
    ptx::mma_m16n8k8_tf32(d, rounded_a, rounded_b);
  }
};

// Multiplies one stage into the warp's sums: 4 × 4 fragments.
template <class Kind, class Sum>
__device__ __forceinline__ void multiply_stage(const Stage& stage, int warp_row, int warp_column,
                                               Sum (&sums)[4][4][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, in_matrix = lane % 8, matrix = lane / 8;
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // of the stage's depth, 32 bytes each
    std::uint32_t a[4][4], b[4][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = warp_row + 16 * i + matrix % 2 * 8 + in_matrix;
      ptx::load_matrix_x4(a[i], stage.a + place_of(row, half * 2 + matrix / 2));
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int column = warp_column + 16 * j + matrix / 2 * 8 + in_matrix;
      std::uint32_t two[4];
      ptx::load_matrix_x4(two, stage.b + place_of(column, half * 2 + matrix % 2));
      b[2 * j][0] = two[0];
      b[2 * j][1] = two[1];
      b[2 * j + 1][0] = two[2];
      b[2 * j + 1][1] = two[3];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) Kind::multiply(sums[i][j], a[i], b[j]);
    }
  }
}

template <class Kind>
__device__ __forceinline__ void multiply_mma(const ProductParameters& p) {
  using T = typename Kind::Element;
  using Sum = typename ProductTypes<T>::Sum;
  auto& stages = static_shared<Stages>().stages;
  constexpr int kStep = kStepBytes / static_cast<int>(sizeof(T));
  const int first_row = static_cast<int>(blockIdx.y) * kSide, first_column = static_cast<int>(blockIdx.x) * kSide;
  const int warp = static_cast<int>(threadIdx.x) / 32, warp_row = warp / 4 * 64, warp_column = warp % 4 * 32;
  const DepthSteps steps = steps_of_split(p, kStep);
  // A group is committed at every step, also an empty one, so that the count of groups under way says which has landed.
  const auto load = [&](int step) {
    if (step < steps.end) {
      Stage& stage = stages[(step - steps.begin) % kStages];
      load_operand(stage.a, static_cast<const T*>(p.a), p.a_stride, first_row, p.rows, step * kStep, p.depth);
      load_operand(stage.b, static_cast<const T*>(p.b), p.b_stride, first_column, p.columns, step * kStep, p.depth);
    }
    ptx::commit_copies();
  };
  for (int i = 0; i < kStages - 1; ++i) load(steps.begin + i);
  Sum sums[4][4][4] = {};
  for (int step = steps.begin; step < steps.end; ++step) {
    ptx::wait_copies<kStages - 2>();
    __syncthreads();  // the stage is there for all, and the one that is loaded next has been read by all
    load(step + kStages - 1);
    multiply_stage<Kind>(stages[(step - steps.begin) % kStages], warp_row, warp_column, sums);
  }
  // The stages have been read and become patches of 16×32 sums, one per warp.
  ptx::wait_copies<0>();
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Sum* patch = reinterpret_cast<Sum*>(stages) + warp * 16 * kPatchStride;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        patch[(lane / 4 + r / 2 * 8) * kPatchStride + 8 * j + lane % 4 * 2 + r % 2] = sums[i][j][r];
      }
    }
    __syncwarp();
    store_patch<T>(p, patch, kPatchStride, 16, 32, first_row + warp_row + 16 * i, first_column + warp_column, lane, 32);
    __syncwarp();
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) product_mma_f16(ProductParameters p) {
  multiply_mma<F16>(p);
}
extern "C" __global__ void __launch_bounds__(256) product_mma_bf16(ProductParameters p) {
  multiply_mma<Bf16>(p);
}
extern "C" __global__ void __launch_bounds__(256) product_mma_tf32(ProductParameters p) {
  multiply_mma<Tf32>(p);
}
extern "C" __global__ void __launch_bounds__(256) product_mma_s8(ProductParameters p) {
  multiply_mma<S8>(p);
}

}  // namespace tessera::cuda
