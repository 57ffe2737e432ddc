// Float32 matrix product C = activation(scale · A·B + addend_scale · D), used by MatMul, Gemm, Conv, LSTM and
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

// The operations on each sum before it is stored.
struct Epilogue {
  float scale = 1;
  const float* bias = nullptr;  // one per column; added to the scaled sum
  // D(i, j) = addend[i * addend_row_stride + j * addend_column_stride]; the column stride is 0 or 1. A bias per column
  // has strides (0, 1), a bias per row (1, 0), a matrix (its leading dimension, 1).
  const float* addend = nullptr;
  std::int64_t addend_row_stride = 0;
  std::int64_t addend_column_stride = 0;
  float addend_scale = 1;
  Activation activation = Activation::none;
  float low = 0, high = 0;  // of clip
  const RowActivation* after =
      nullptr;  // null: none; applied to rows of C whose sums are complete and still in a cache
};

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;  // A is m × k, B is k × n, C is m × n
};

// Writes rows [k_begin, k_begin + k_count) of columns [column, column + width) of a right operand to `to`, with
// `stride` floats per row; floats of a row beyond `width` are zero. For operands that exist only on the fly (implicit
// im2col).
using PackRight = void (*)(const void* state, std::int64_t k_begin, std::int64_t k_count, std::int64_t column,
                           std::int64_t width, float* to, std::int64_t stride);

// An operand: in memory with element (i, j) at data[i * row_stride + j * column_stride], packed beforehand, or
// generated on the fly (right operands only).
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

// A product of one shape, cut into tiles that may run in any order on any threads. The number of tiles depends on the
// number of threads, the sums do not. Immutable and cheap to create; it and packed operands are bound to the
// instruction set active at creation.
class GemmF32 {
 public:
  GemmF32(GemmShape shape, bool left_packed, bool right_packed);

  const GemmShape& shape() const { return shape_; }
  struct Split {
    std::int64_t rows = 1, columns = 1;  // number of chunks of each
    std::int64_t tiles() const { return rows * columns; }
  };
  Split split(int threads) const;
  Split split(const KernelContext& context) const;  // for the threads of the run
  struct Tile {
    std::int64_t row_begin, row_end, column_begin, column_end;
  };
  // Computes the part of C that belongs to `tile`. C is row-major with leading dimension `ldc` and does not overlap the
  // inputs. Operands must be packed exactly where the constructor was told so.
  void run(const Split& split, std::int64_t tile, const GemmOperand& left, const GemmOperand& right, float* c,
           std::int64_t ldc, const Epilogue& epilogue) const;

 private:
  static constexpr int kThreads[] = {1, 2, 4, 16};

  Split best_split(int threads, bool left_packed, bool right_packed) const;
  Tile tile_at(const Split& split, std::int64_t index) const;
  // Computes one block of k of a part of a tile, such that its block of B fits the cache.
  void run_block(const Tile& block, std::int64_t k_begin, const GemmOperand& left, const GemmOperand& right, float* c,
                 std::int64_t ldc, const Epilogue& epilogue) const;

  GemmShape shape_;
  const GemmF32Isa* isa_;
  std::int64_t k_block_ = 0;
  std::int64_t block_panels_ = 1;                  // panels of B in one cache block
  std::array<Split, std::size(kThreads)> splits_;  // for each of the numbers of threads kThreads
};

// Computes all tiles of one product with the threads of the run.
void gemm_f32(const KernelContext& context, const GemmF32& gemm, const GemmOperand& left, const GemmOperand& right,
              float* c, std::int64_t ldc, const Epilogue& epilogue = {});

// Bytes of a packed operand, for the active instruction set.
std::int64_t gemm_f32_left_bytes(std::int64_t m, std::int64_t k);
std::int64_t gemm_f32_right_bytes(std::int64_t k, std::int64_t n);
void gemm_f32_pack_left(const GemmOperand& left, std::int64_t m, std::int64_t k, float* to);
void gemm_f32_pack_right(const GemmOperand& right, std::int64_t k, std::int64_t n, float* to);
// Transposes: to[i * to_stride + j] = from[j * column_stride + i * row_stride] for i < rows, j < columns. Reaches
// memory bandwidth if either stride is 1.
void gemm_f32_transpose(const float* from, std::int64_t column_stride, std::int64_t row_stride, std::int64_t columns,
                        std::int64_t rows, float* to, std::int64_t to_stride);
// Packs a constant operand through the store. Only the strides of `strides` are used, not its data. `count` operands
// lie `stride` floats apart in the constant and are packed one after the other, each gemm_f32_*_bytes long. `layout`
// distinguishes different readings of the same constant ("transposed", "grouped").
std::shared_ptr<const PackedWeights> gemm_f32_packed_left(WeightStore& store, const Tensor& weights,
                                                          const GemmOperand& strides, std::int64_t m, std::int64_t k,
                                                          std::int64_t count, std::int64_t stride,
                                                          std::string_view layout);
std::shared_ptr<const PackedWeights> gemm_f32_packed_right(WeightStore& store, const Tensor& weights,
                                                           const GemmOperand& strides, std::int64_t k, std::int64_t n,
                                                           std::int64_t count, std::int64_t stride,
                                                           std::string_view layout);

}  // namespace tessera::backends::cpu
