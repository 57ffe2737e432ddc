// First rung: 64×64 tiles of d, 4×4 a thread, operands in shared memory. int8 multiplies four elements at once (dp4a).
//
// Architectures: 75 80 86 89 90a 100 120
// Gate: product_tiles_f32 registers 96 shared 26000 instruction FFMA
// Gate: product_tiles_f16 registers 96 shared 26000 instruction FFMA
// Gate: product_tiles_bf16 registers 96 shared 26000 instruction FFMA
// Gate: product_tiles_s8 registers 96 shared 26000 instruction IDP
#include "backends/cuda/kernels/products/epilogue.h"

namespace tessera::cuda {
namespace {

constexpr int kSide = 64, kWords = 16, kPadding = 4, kPerThread = 4;

// The type of an element of a tile: a float, or four int8 elements of the depth.
template <class T>
struct Word {
  using Type = float;
  static constexpr int kElements = 1;
  static __device__ __forceinline__ float load(const T* row, int k, int depth) {
    return k < depth ? to_float(row[k]) : 0.0f;
  }
  static __device__ __forceinline__ float multiply(float a, float b, float sum) { return fmaf(a, b, sum); }
};
template <>
struct Word<std::int8_t> {
  using Type = std::uint32_t;
  static constexpr int kElements = 4;
  static __device__ __forceinline__ std::uint32_t load(const std::int8_t* row, int k, int depth) {
    std::uint32_t word = 0;
    for (int i = 0; i < 4; ++i) {
      if (k + i < depth) word |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(row[k + i])) << (8 * i);
    }
    return word;
  }
  static __device__ __forceinline__ int multiply(std::uint32_t a, std::uint32_t b, int sum) {
    return ptx::dp4a(a, b, sum);
  }
};

template <class T>
struct Tiles {
  typename Word<T>::Type a[kWords][kSide + kPadding], b[kWords][kSide + kPadding];
};

template <class Sum>
struct TileSums {
  Sum values[kSide][kSide + 1];
};

// Loads 64 rows of 16 words; rows and elements outside the matrix are zeros.
template <class T, class Tile>
__device__ __forceinline__ void load_tile(Tile& tile, const T* matrix, std::int64_t stride, int first_row, int rows,
                                          int first, int depth) {
  for (int i = static_cast<int>(threadIdx.x); i < kSide * kWords; i += 256) {
    const int row = i / kWords, word = i % kWords, at = first_row + row;
    tile[word][row] = at < rows ? Word<T>::load(matrix + at * stride, first + word * Word<T>::kElements, depth) : 0;
  }
}

template <class T>
__device__ __forceinline__ void multiply_tiles(const ProductParameters& p) {
  using Sum = typename ProductTypes<T>::Sum;
  auto& tiles = static_shared<Tiles<T>>();
  const int first_row = static_cast<int>(blockIdx.y) * kSide, first_column = static_cast<int>(blockIdx.x) * kSide;
  const int thread_row = static_cast<int>(threadIdx.x) / 16 * kPerThread;
  const int thread_column = static_cast<int>(threadIdx.x) % 16 * kPerThread;
  Sum sums[kPerThread][kPerThread] = {};
  constexpr int kStep = kWords * Word<T>::kElements;
  const DepthSteps steps = steps_of_split(p, kStep);
  for (int step = steps.begin; step < steps.end; ++step) {
    load_tile(tiles.a, static_cast<const T*>(p.a), p.a_stride, first_row, p.rows, step * kStep, p.depth);
    load_tile(tiles.b, static_cast<const T*>(p.b), p.b_stride, first_column, p.columns, step * kStep, p.depth);
    __syncthreads();
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
#pragma unroll
      for (int r = 0; r < kPerThread; ++r) {
#pragma unroll
        for (int c = 0; c < kPerThread; ++c) {
          sums[r][c] = Word<T>::multiply(tiles.a[word][thread_row + r], tiles.b[word][thread_column + c], sums[r][c]);
        }
      }
    }
    __syncthreads();
  }
  auto& results = static_shared<TileSums<Sum>>().values;
#pragma unroll
  for (int r = 0; r < kPerThread; ++r) {
#pragma unroll
    for (int c = 0; c < kPerThread; ++c) results[thread_row + r][thread_column + c] = sums[r][c];
  }
  __syncthreads();
  store_patch<T>(p, results[0], kSide + 1, kSide, kSide, first_row, first_column, static_cast<int>(threadIdx.x), 256);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) product_tiles_f32(ProductParameters p) {
  multiply_tiles<float>(p);
}
extern "C" __global__ void __launch_bounds__(256) product_tiles_f16(ProductParameters p) {
  multiply_tiles<Float16>(p);
}
extern "C" __global__ void __launch_bounds__(256) product_tiles_bf16(ProductParameters p) {
  multiply_tiles<Bfloat16>(p);
}
extern "C" __global__ void __launch_bounds__(256) product_tiles_s8(ProductParameters p) {
  multiply_tiles<std::int8_t>(p);
}

}  // namespace tessera::cuda
