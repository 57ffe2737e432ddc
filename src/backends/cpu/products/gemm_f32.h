// Float32 matrix product C = activation(scale · A·B + addend_scale · D), the engine under MatMul, Gemm, Conv, LSTM and
// attention.
//
// Blocking after Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34(3), 2008): a
// register tile of A's rows by two or four vectors of B's columns, a panel of B and a block of A held in the first- and
// second-level caches. Each element of C is summed over k in one fixed order that depends on K alone, so results do not
// depend on how rows and columns are split into tiles, batches or threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

struct RowActivation;

enum class Activation : std::uint8_t { none, relu, clip };

// What happens to each sum before it is stored.
struct Epilogue {
  float scale = 1;
  const float* bias = nullptr;  // one a column; added to the scaled sum
  // D(i, j) = addend[i * addend_row_stride + j * addend_column_stride]; the column stride is 0 or 1. A bias per column
  // has strides (0, 1), a bias per row (1, 0), a matrix (its leading dimension, 1).
  const float* addend = nullptr;
  std::int64_t addend_row_stride = 0;
  std::int64_t addend_column_stride = 0;
  float addend_scale = 1;
  Activation activation = Activation::none;
  float low = 0, high = 0;  // of clip
  const RowActivation* after =
      nullptr;  // what else happens to rows of C, when parts of them are complete and still in a cache
};

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;  // A is m × k, B is k × n, C is m × n
};

// Writes rows [k_begin, k_begin + k_count) of columns [column, column + width) of a right operand to `to`, `stride`
// floats a row; the floats of a row beyond `width` are zero. For operands that exist only on the fly (implicit im2col).
using PackRight = void (*)(const void* state, std::int64_t k_begin, std::int64_t k_count, std::int64_t column,
                           std::int64_t width, float* to, std::int64_t stride);

// An operand as it lies in memory, element (i, j) at data[i * row_stride + j * column_stride]; or packed beforehand; or
// made on the fly (right operands only).
struct GemmOperand {
  const float* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
  bool packed = false;
  PackRight pack = nullptr;
  const void* state = nullptr;

  static GemmOperand strided(const float* data, std::int64_t row_stride, std::int64_t column_stride) {
    return {data, row_stride, column_stride};
  }
  static GemmOperand prepacked(const float* data) { return {.data = data, .packed = true}; }
  static GemmOperand on_the_fly(PackRight pack, const void* state) { return {.pack = pack, .state = state}; }
};

struct GemmF32Isa;

// A product of one shape, cut into tiles that may run in any order on any threads, and for more threads into more of
// them, though sums are the same. Immutable and cheap to make; bound to the instruction set active when it was made, as
// are packed operands.
class GemmF32 {
 public:
  GemmF32(GemmShape shape, bool left_packed, bool right_packed);

  const GemmShape& shape() const { return shape_; }
  struct Split {
    std::int64_t rows = 1, columns = 1;  // chunks of each
    std::int64_t tiles() const { return rows * columns; }
  };
  Split split(int threads) const;
  Split split(const KernelContext& context) const;  // for the threads of the run
  struct Tile {
    std::int64_t row_begin, row_end, column_begin, column_end;
  };
  // Computes the part of C that belongs to `tile`. C is row-major with leading dimension `ldc` and does not overlap
  // inputs. `packed` of the operands must be as given to the constructor.
  void run(const Split& split, std::int64_t tile, const GemmOperand& left, const GemmOperand& right, float* c,
           std::int64_t ldc, const Epilogue& epilogue) const;

 private:
  static constexpr int kThreads[] = {1, 2, 4, 16};

  Split best_split(int threads, bool left_packed, bool right_packed) const;
  Tile tile_at(const Split& split, std::int64_t index) const;
  // One block of k of a part of a tile whose block of B fits the cache.
  void run_block(const Tile& block, std::int64_t k_begin, const GemmOperand& left, const GemmOperand& right, float* c,
                 std::int64_t ldc, const Epilogue& epilogue) const;

  GemmShape shape_;
  const GemmF32Isa* isa_;
  std::int64_t k_block_ = 0;
  std::int64_t block_panels_ = 1;                  // panels of B in one cache block
  std::array<Split, std::size(kThreads)> splits_;  // for so many threads
};

// All tiles of one product over the threads of the run.
void gemm_f32(const KernelContext& context, const GemmF32& gemm, const GemmOperand& left, const GemmOperand& right,
              float* c, std::int64_t ldc, const Epilogue& epilogue = {});

// Bytes of a packed operand, for the instruction set active now.
std::int64_t gemm_f32_left_bytes(std::int64_t m, std::int64_t k);
std::int64_t gemm_f32_right_bytes(std::int64_t k, std::int64_t n);
void gemm_f32_pack_left(const GemmOperand& left, std::int64_t m, std::int64_t k, float* to);
void gemm_f32_pack_right(const GemmOperand& right, std::int64_t k, std::int64_t n, float* to);
// to[i * to_stride + j] = from[j * column_stride + i * row_stride] for j < columns, i < rows; at the speed of memory
// where either stride is 1.
void gemm_f32_transpose(const float* from, std::int64_t column_stride, std::int64_t row_stride, std::int64_t columns,
                        std::int64_t rows, float* to, std::int64_t to_stride);
// A constant operand packed through the store. Of `strides` only those count, not its data: `count` operands lie
// `stride` floats apart in the constant and are packed one after the other, each gemm_f32_*_bytes long. `layout` tells
// apart readings of the same constant ("transposed", "grouped").
std::shared_ptr<const PackedWeights> gemm_f32_packed_left(WeightStore& store, const Tensor& weights,
                                                          const GemmOperand& strides, std::int64_t m, std::int64_t k,
                                                          std::int64_t count, std::int64_t stride,
                                                          std::string_view layout);
std::shared_ptr<const PackedWeights> gemm_f32_packed_right(WeightStore& store, const Tensor& weights,
                                                           const GemmOperand& strides, std::int64_t k, std::int64_t n,
                                                           std::int64_t count, std::int64_t stride,
                                                           std::string_view layout);

}  // namespace tessera::backends::cpu
