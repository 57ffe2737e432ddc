#include "backends/cpu/gemm_f32.h"

#include <fmt/format.h>
#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "backends/cpu/gemm_f32_isa.h"
#include "base/checked.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

constexpr std::int64_t kMaxDepth = 384;                   // of one block over k
constexpr std::int64_t kBlockFloats = 96 * 1024;          // of a block of B: a good third of the second-level cache
constexpr std::int64_t kMaxPanelFloats = 32 * kMaxDepth;  // of a panel of A or B in any instruction set
constexpr double kTileOperations = 3e6;  // about 30 microseconds, well above the cost of handing out a tile
constexpr std::int64_t kMostTiles = 32;

// Room for one packed panel of A and one packed block of B. A thread computes one tile at a time.
struct Workspace {
  hwy::AlignedFreeUniquePtr<float[]> left = hwy::AllocateAligned<float>(kMaxPanelFloats);
  hwy::AlignedFreeUniquePtr<float[]> right = hwy::AllocateAligned<float>(kBlockFloats + kMaxPanelFloats);

  static Workspace& of_this_thread() {
    thread_local Workspace workspace;
    if (workspace.left == nullptr || workspace.right == nullptr) throw std::bad_alloc();
    return workspace;
  }
};

// Packs columns [column, column + width) and rows [k_begin, k_begin + k) of B as one panel, padded to whole vectors.
void pack_right_panel(const GemmF32Isa& isa, const GemmOperand& right, std::int64_t k_begin, std::int64_t k,
                      std::int64_t column, std::int64_t width, float* to) {
  const std::int64_t stride = round_up(width, isa.lanes);
  if (right.pack != nullptr) return right.pack(right.state, k_begin, k, column, width, to, stride);
  const float* from = right.data + k_begin * right.row_stride + column * right.column_stride;
  isa.pack(from, right.column_stride, right.row_stride, width, k, to, stride);
  if (width == stride) return;
  for (std::int64_t row = 0; row < k; ++row) std::fill(to + row * stride + width, to + (row + 1) * stride, 0.0f);
}

}  // namespace

GemmF32::GemmF32(GemmShape shape, bool left_packed, bool right_packed) : shape_(shape), isa_(&gemm_f32_isa()) {
  const std::int64_t k_blocks = std::max<std::int64_t>(1, ceil_divide(shape.k, kMaxDepth));
  k_block_ = ceil_divide(shape.k, k_blocks);
  block_panels_ = std::max<std::int64_t>(1, kBlockFloats / (isa_->columns * std::max<std::int64_t>(k_block_, 1)));
  choose_tiles(left_packed, right_packed);
}

// Columns are split first: a tile then reads its part of B once. An operand packed on the fly is packed again by every
// tile that shares it, so tiles keep enough panels of the other to hide that, unless too few tiles would be left.
void GemmF32::choose_tiles(bool left_packed, bool right_packed) {
  if (shape_.m == 0 || shape_.n == 0) {
    row_chunks_ = 0;
    return;
  }
  const std::int64_t row_panels = ceil_divide(shape_.m, isa_->rows);
  const std::int64_t column_panels = ceil_divide(shape_.n, isa_->columns);
  const double operations =
      2.0 * static_cast<double>(shape_.m) * static_cast<double>(shape_.n) * static_cast<double>(shape_.k);
  const auto wanted =
      static_cast<std::int64_t>(std::clamp(operations / kTileOperations, 1.0, static_cast<double>(kMostTiles)));
  for (const std::int64_t panels : {8, 2, 1}) {
    const std::int64_t most_columns = std::max<std::int64_t>(1, left_packed ? column_panels : column_panels / panels);
    const std::int64_t most_rows = std::max<std::int64_t>(1, right_packed ? row_panels : row_panels / panels);
    column_chunks_ = std::min(wanted, most_columns);
    row_chunks_ = std::min(ceil_divide(wanted, column_chunks_), most_rows);
    if (tiles() >= std::min<std::int64_t>(wanted, 8)) break;
  }
}

void GemmF32::run(std::int64_t tile, const GemmOperand& left, const GemmOperand& right, float* c, std::int64_t ldc,
                  const Epilogue& epilogue) const {
  const std::int64_t row_panels = ceil_divide(shape_.m, isa_->rows),
                     column_panels = ceil_divide(shape_.n, isa_->columns);
  const std::int64_t row_chunk = tile % row_chunks_, column_chunk = tile / row_chunks_;
  const std::int64_t row_begin = row_panels * row_chunk / row_chunks_ * isa_->rows;
  const std::int64_t row_end = std::min(shape_.m, row_panels * (row_chunk + 1) / row_chunks_ * isa_->rows);
  const std::int64_t column_begin = column_panels * column_chunk / column_chunks_ * isa_->columns;
  const std::int64_t column_end =
      std::min(shape_.n, column_panels * (column_chunk + 1) / column_chunks_ * isa_->columns);
  Workspace& workspace = Workspace::of_this_thread();
  // With a single panel of A nothing is gained by packing B: its rows are read where they lie.
  const bool in_place =
      !right.packed && right.pack == nullptr && right.column_stride == 1 && row_end - row_begin <= isa_->rows;

  for (std::int64_t column = column_begin; column < column_end; column += block_panels_ * isa_->columns) {
    const std::int64_t block_end = std::min(column_end, column + block_panels_ * isa_->columns);
    // In place, a last narrow panel is still packed: vectors would read beyond its rows.
    const std::int64_t whole_end = column + (block_end - column) / isa_->columns * isa_->columns;
    std::int64_t k_begin = 0;
    do {  // once at least: with k = 0 the product is zero, and C is still written
      const std::int64_t k = std::min(k_block_, shape_.k - k_begin);
      const bool last = k_begin + k >= shape_.k;
      PanelProduct product{.k = k, .ldc = ldc, .accumulate = k_begin > 0};
      if (!right.packed) {
        for (std::int64_t panel = in_place ? whole_end : column; panel < block_end; panel += isa_->columns) {
          pack_right_panel(*isa_, right, k_begin, k, panel, std::min(isa_->columns, block_end - panel),
                           workspace.right.get() + (panel - column) * k);
        }
      }
      for (std::int64_t row = row_begin; row < row_end; row += isa_->rows) {
        product.rows = std::min(isa_->rows, row_end - row);
        if (left.packed) {
          product.left = left.data + row * shape_.k + k_begin * product.rows;
        } else {
          product.left = workspace.left.get();
          isa_->pack(left.data + row * left.row_stride + k_begin * left.column_stride, left.row_stride,
                     left.column_stride, product.rows, k, workspace.left.get(), product.rows);
        }
        const auto multiply = [&](std::int64_t begin, std::int64_t end, const float* data, std::int64_t panel_stride,
                                  std::int64_t row_stride) {
          if (begin >= end) return;
          Epilogue here = epilogue;
          if (here.addend != nullptr) here.addend += row * here.addend_row_stride + begin * here.addend_column_stride;
          product.columns = end - begin;
          product.right = data;
          product.right_panel_stride = panel_stride;
          product.right_row_stride = row_stride;
          product.c = c + row * ldc + begin;
          product.epilogue = last ? &here : nullptr;
          isa_->multiply(product);
        };
        if (right.packed) {
          // A narrow last panel has its own row length.
          multiply(column, whole_end, right.data + column * shape_.k + k_begin * isa_->columns,
                   isa_->columns * shape_.k, 0);
          multiply(whole_end, block_end,
                   right.data + whole_end * shape_.k + k_begin * round_up(block_end - whole_end, isa_->lanes), 0, 0);
        } else if (in_place) {
          multiply(column, whole_end, right.data + k_begin * right.row_stride + column, isa_->columns,
                   right.row_stride);
          multiply(whole_end, block_end, workspace.right.get() + (whole_end - column) * k, 0, 0);
        } else {
          multiply(column, block_end, workspace.right.get(), isa_->columns * k, 0);
        }
      }
      k_begin += k;
    } while (k_begin < shape_.k);
  }
}

void gemm_f32(const KernelContext& context, const GemmF32& gemm, const GemmOperand& left, const GemmOperand& right,
              float* c, std::int64_t ldc, const Epilogue& epilogue) {
  context.parallel_for(gemm.tiles(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) gemm.run(tile, left, right, c, ldc, epilogue);
  });
}

std::int64_t gemm_f32_left_bytes(std::int64_t m, std::int64_t k) {
  return base::checked_multiply(base::checked_multiply(m, k), 4);
}

std::int64_t gemm_f32_right_bytes(std::int64_t k, std::int64_t n) {
  return base::checked_multiply(base::checked_multiply(round_up(n, gemm_f32_isa().lanes), k), 4);
}

void gemm_f32_pack_left(const GemmOperand& left, std::int64_t m, std::int64_t k, float* to) {
  const GemmF32Isa& isa = gemm_f32_isa();
  for (std::int64_t row = 0; row < m; row += isa.rows) {
    const std::int64_t rows = std::min(isa.rows, m - row);
    isa.pack(left.data + row * left.row_stride, left.row_stride, left.column_stride, rows, k, to + row * k, rows);
  }
}

void gemm_f32_pack_right(const GemmOperand& right, std::int64_t k, std::int64_t n, float* to) {
  const GemmF32Isa& isa = gemm_f32_isa();
  for (std::int64_t column = 0; column < n; column += isa.columns) {
    pack_right_panel(isa, right, 0, k, column, std::min(isa.columns, n - column), to + column * k);
  }
}

PackedWeights allocate_packed(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  auto* data = new (std::align_val_t{64}) std::byte[size];
  return {std::shared_ptr<std::byte[]>(data, [](std::byte* p) { ::operator delete[](p, std::align_val_t{64}); }),
          bytes};
}

std::shared_ptr<const PackedWeights> gemm_f32_packed_left(WeightStore& store, const Tensor& weights,
                                                          const GemmOperand& first, std::int64_t m, std::int64_t k,
                                                          std::int64_t count, std::int64_t stride,
                                                          std::string_view layout) {
  const std::string name = fmt::format("gemm_f32_left_v1:{}:{}:{}x{}x{}", gemm_f32_isa().name, layout, count, m, k);
  return store.find_or_pack(weights, name, [&] {
    const std::int64_t bytes = gemm_f32_left_bytes(m, k);
    PackedWeights packed = allocate_packed(base::checked_multiply(bytes, count));
    GemmOperand left = first;
    for (std::int64_t i = 0; i < count; ++i, left.data += stride) {
      gemm_f32_pack_left(left, m, k, reinterpret_cast<float*>(packed.data.get() + i * bytes));
    }
    return packed;
  });
}

std::shared_ptr<const PackedWeights> gemm_f32_packed_right(WeightStore& store, const Tensor& weights,
                                                           const GemmOperand& first, std::int64_t k, std::int64_t n,
                                                           std::int64_t count, std::int64_t stride,
                                                           std::string_view layout) {
  const std::string name = fmt::format("gemm_f32_right_v1:{}:{}:{}x{}x{}", gemm_f32_isa().name, layout, count, k, n);
  return store.find_or_pack(weights, name, [&] {
    const std::int64_t bytes = gemm_f32_right_bytes(k, n);
    PackedWeights packed = allocate_packed(base::checked_multiply(bytes, count));
    GemmOperand right = first;
    for (std::int64_t i = 0; i < count; ++i, right.data += stride) {
      gemm_f32_pack_right(right, k, n, reinterpret_cast<float*>(packed.data.get() + i * bytes));
    }
    return packed;
  });
}

}  // namespace tessera::backends::cpu
