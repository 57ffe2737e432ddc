#include "backends/cpu/products/gemm_f32.h"

#include <fmt/format.h>
#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>

#include "backends/cpu/element_wise/element_wise_unary.h"
#include "backends/cpu/products/gemm_f32_isa.h"
#include "base/numbers/checked.h"
#include "base/threads/yield_point.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

constexpr std::int64_t kMaxDepth = 512;  // of one block of k
// Floats of a block of B, if it is packed here and if it was packed beforehand. A panel of B is read once per block of
// A, so a prepacked one may come from the third-level cache; larger blocks of B mean that A is packed less often.
constexpr std::int64_t kBlockFloats = 384 * 1024, kPackedBlockFloats = 1024 * 1024;
constexpr std::int64_t kLeftBlockFloats =
    128 * 1024;                               // of packed A, kept in the second-level cache while panels of B meet it
constexpr std::int64_t kMostLeftPanels = 64;  // in a block of A
constexpr std::int64_t kMaxPanelFloats = 64 * kMaxDepth;  // of a panel of A or B in any instruction set
// Work worth a tile, well above the cost of handing one out (less than a microsecond): about 10 microseconds of
// operations or, if few rows leave little to compute, of reading a packed right operand.
constexpr double kTileOperations = 1e6, kBytesOfTile = 256 * 1024;
constexpr double kMostTiles = 32;
constexpr std::int64_t kAfterColumns = 128;  // rows with fewer columns are not worth a call of the activation
// A run can be stopped between two tiles, so long products are cut into several tiles of these operations or bytes of
// B, and no tile exceeds the last limit.
constexpr double kLongOperations = 1e9, kLongBytes = 64e6, kLongestOperations = 2e10;
// The part of a tile's time by which the speeds of cores differ.
constexpr double kUnevenness = 0.1;

// Buffers for one packed block of A and one of B. A thread computes one tile at a time.
struct Workspace {
  hwy::AlignedFreeUniquePtr<float[]> left = hwy::AllocateAligned<float>(kLeftBlockFloats + kMaxPanelFloats);
  hwy::AlignedFreeUniquePtr<float[]> right = hwy::AllocateAligned<float>(kBlockFloats + kMaxPanelFloats);

  static Workspace& of_this_thread() {
    thread_local Workspace workspace;
    if (workspace.left == nullptr || workspace.right == nullptr) throw std::bad_alloc();
    return workspace;
  }
};

// The depth of the blocks that k is cut into; the last may be shallower. Packed operands are laid out block by block,
// so that a tile reads them in order.
std::int64_t block_depth(std::int64_t k) {
  return ceil_divide(k, std::max<std::int64_t>(1, ceil_divide(k, kMaxDepth)));
}

// The number of panels of A. They have about equal heights: a short last panel would read all of B for few rows.
std::int64_t row_panels_of(const GemmF32Isa& isa, std::int64_t m) {
  return ceil_divide(m, isa.rows);
}
// The first row of a panel: m · panel / panels, computed without overflow.
std::int64_t row_panel_begin(std::int64_t m, std::int64_t panels, std::int64_t panel) {
  return m / panels * panel + m % panels * panel / panels;
}
// The end of the panel that begins at `row`.
std::int64_t row_panel_end(const GemmF32Isa& isa, std::int64_t m, std::int64_t row) {
  // No panel is higher than m / panels, rounded up: find the first panel from that bound on that ends behind the row.
  const std::int64_t panels = row_panels_of(isa, m);
  for (std::int64_t panel = row / ceil_divide(m, panels);; ++panel) {
    if (const std::int64_t end = row_panel_begin(m, panels, panel + 1); end > row) return end;
  }
}

// Packs rows [k_begin, k_begin + k) and columns [column, column + width) of B as one panel, padded to whole vectors.
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
  const std::int64_t block_floats = right_packed ? kPackedBlockFloats : kBlockFloats;
  block_panels_ = std::max<std::int64_t>(1, block_floats / (isa_->columns * std::max<std::int64_t>(k_block_, 1)));
  for (std::size_t i = 0; i < splits_.size(); ++i) splits_[i] = best_split(kThreads[i], left_packed, right_packed);
}

GemmF32::Split GemmF32::split(int threads) const {
  std::size_t i = 0;
  while (i + 1 < splits_.size() && kThreads[i] < threads) ++i;
  return splits_[i];
}

GemmF32::Split GemmF32::split(const KernelContext& context) const {
  return split(context.resources().threads());
}

// Chooses the grid of tiles that takes the least estimated time with this number of threads, among those whose tiles
// are worth handing out. Estimated cycles per unit of k: register tiles, elements of A read once per chunk of columns,
// and elements of B read once per chunk of rows; reading costs more if it includes packing.
GemmF32::Split GemmF32::best_split(int threads, bool left_packed, bool right_packed) const {
  if (shape_.m == 0 || shape_.n == 0) return {0, 0};
  const auto m = static_cast<double>(shape_.m), n = static_cast<double>(shape_.n);
  const std::int64_t row_panels = row_panels_of(*isa_, shape_.m);
  const std::int64_t column_panels = ceil_divide(shape_.n, isa_->columns);
  const double operations = 2.0 * m * n * static_cast<double>(shape_.k);
  const double right_bytes = right_packed ? 4 * n * static_cast<double>(shape_.k) : 0;
  const double stops = std::clamp(operations / kLongestOperations, kMostTiles / 2, 4096.0);
  const auto most = static_cast<std::int64_t>(
      std::clamp(std::max(operations / kTileOperations, right_bytes / kBytesOfTile), 1.0, 2 * stops));
  const auto least = std::min(static_cast<std::int64_t>(std::clamp(
                                  std::max(operations / kLongOperations, right_bytes / kLongBytes), 1.0, stops)),
                              row_panels * column_panels);
  const double tile_cycles = m / static_cast<double>(row_panels) * static_cast<double>(isa_->columns / isa_->lanes);
  const double left_cycles = left_packed ? 0.25 : 1.5, right_cycles = right_packed ? 0.5 : 1.5;
  Split best;
  double least_cycles = std::numeric_limits<double>::infinity();
  for (std::int64_t columns = 1; columns <= std::min(most, column_panels); ++columns) {
    for (std::int64_t rows = 1; rows <= std::min(most / columns, row_panels); ++rows) {
      const std::int64_t tiles = rows * columns;
      if (tiles < least) continue;
      const double reading =
          left_cycles * m / static_cast<double>(rows) + right_cycles * n / static_cast<double>(columns);
      const double average =
          tile_cycles * static_cast<double>(row_panels * column_panels) / static_cast<double>(tiles) + reading;
      const double largest =
          tile_cycles * static_cast<double>(ceil_divide(row_panels, rows) * ceil_divide(column_panels, columns)) +
          reading;
      const auto rounds = static_cast<double>(ceil_divide(tiles, threads));
      // Over many rounds the sizes of tiles average out.
      const double cycles = average * rounds + (largest - average) / rounds + (threads > 1 ? kUnevenness * average : 0);
      if (cycles >= least_cycles) continue;
      least_cycles = cycles;
      best = {rows, columns};
    }
  }
  return best;
}

GemmF32::Tile GemmF32::tile_at(const Split& split, std::int64_t index) const {
  const std::int64_t row_panels = row_panels_of(*isa_, shape_.m);
  const std::int64_t column_panels = ceil_divide(shape_.n, isa_->columns);
  const std::int64_t row = index % split.rows, column = index / split.rows;
  return {row_panel_begin(shape_.m, row_panels, row_panels * row / split.rows),
          row_panel_begin(shape_.m, row_panels, row_panels * (row + 1) / split.rows),
          column_panels * column / split.columns * isa_->columns,
          std::min(shape_.n, column_panels * (column + 1) / split.columns * isa_->columns)};
}

void GemmF32::run(const Split& split, std::int64_t tile, const GemmOperand& left, const GemmOperand& right, float* c,
                  std::int64_t ldc, const Epilogue& epilogue) const {
  const Tile whole = tile_at(split, tile);
  Tile block = whole;
  for (std::int64_t column = whole.column_begin; column < whole.column_end; column = block.column_end) {
    block.column_begin = column;
    block.column_end = std::min(whole.column_end, column + block_panels_ * isa_->columns);
    std::int64_t k_begin = 0;
    do {  // at least once: with k = 0 the product is zero, and C is still written
      run_block(block, k_begin, left, right, c, ldc, epilogue);
      k_begin += k_block_;
    } while (k_begin < shape_.k);
  }
}

void GemmF32::run_block(const Tile& block, std::int64_t k_begin, const GemmOperand& left, const GemmOperand& right,
                        float* c, std::int64_t ldc, const Epilogue& epilogue) const {
  const std::int64_t k = std::min(k_block_, shape_.k - k_begin), columns = block.column_end - block.column_begin;
  Workspace& workspace = Workspace::of_this_thread();
  // With a single panel of A, packing B gains nothing: its rows are read in place, except in a narrow last panel, where
  // vectors would reach beyond the rows.
  const bool one_panel = row_panel_end(*isa_, shape_.m, block.row_begin) >= block.row_end;
  const bool in_place = !right.packed && right.pack == nullptr && right.column_stride == 1 && one_panel;
  const std::int64_t whole_panels = in_place ? columns / isa_->columns * isa_->columns : 0;
  const float* packed_right = workspace.right.get();
  if (right.packed) {
    packed_right = right.data + k_begin * round_up(shape_.n, isa_->lanes) + block.column_begin * k;
  } else {
    for (std::int64_t panel = whole_panels; panel < columns; panel += isa_->columns) {
      base::yield_point();
      pack_right_panel(*isa_, right, k_begin, k, block.column_begin + panel, std::min(isa_->columns, columns - panel),
                       workspace.right.get() + panel * k);
    }
  }
  const bool changes_nothing = epilogue.scale == 1 && epilogue.bias == nullptr && epilogue.addend == nullptr &&
                               epilogue.activation == Activation::none;
  const auto multiply = [&](PanelProduct& product, std::int64_t row, std::int64_t begin, std::int64_t end) {
    Epilogue here = epilogue;
    const std::int64_t column = block.column_begin + begin;
    if (here.bias != nullptr) here.bias += column;
    if (here.addend != nullptr) here.addend += row * here.addend_row_stride + column * here.addend_column_stride;
    product.columns = end - begin;
    product.c = c + row * ldc + column;
    product.epilogue = k_begin + k >= shape_.k && !changes_nothing ? &here : nullptr;
    isa_->multiply(product);
  };
  PanelProduct product{.k = k, .right_panel_stride = isa_->columns * k, .ldc = ldc, .accumulate = k_begin > 0};
  // Takes a block of panels of A at a time. Each panel of B meets all of them while it is in a near cache; a single
  // panel of A runs along all of B.
  const std::int64_t most_panels =
      std::clamp<std::int64_t>(kLeftBlockFloats / (isa_->rows * std::max<std::int64_t>(k, 1)), 1, kMostLeftPanels);
  const std::int64_t together = one_panel ? columns : isa_->columns;
  std::array<std::int64_t, kMostLeftPanels + 1> rows;
  for (std::int64_t row = block.row_begin, panels = 0; row < block.row_end; row = rows[panels]) {
    rows[0] = row;
    for (panels = 0; panels < most_panels && rows[panels] < block.row_end; ++panels)
      rows[panels + 1] = row_panel_end(*isa_, shape_.m, rows[panels]);
    const float* packed_left = left.packed ? left.data + k_begin * shape_.m + row * k : workspace.left.get();
    for (std::int64_t begin = 0, end = 0, complete = 0; begin < columns; begin = end) {
      const bool read_in_place = begin < whole_panels;
      end = read_in_place ? whole_panels : std::min(columns, begin + together);
      product.right =
          read_in_place ? right.data + k_begin * right.row_stride + block.column_begin : packed_right + begin * k;
      product.right_panel_stride = read_in_place ? isa_->columns : isa_->columns * k;
      product.right_row_stride = read_in_place ? right.row_stride : 0;
      // Each panel of A prefetches an equal share of the next panel of B: a concentrated prefetch would wait for memory
      // and stall the multiplications behind it.
      const float* const behind = one_panel || end >= columns ? nullptr : packed_right + end * k;
      const std::int64_t floats_behind = behind == nullptr ? 0 : (std::min(columns, end + isa_->columns) - end) * k;
      product.next_floats = std::min(PanelProduct::kMostNextFloats,
                                     round_up(ceil_divide(floats_behind, panels * std::max<std::int64_t>(k, 1)), 2));
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        const std::int64_t first = rows[panel];
        product.rows = rows[panel + 1] - first;
        product.left = packed_left + (first - row) * k;
        if (!left.packed && product.rows == 1 && left.column_stride == 1) {
          product.left = left.data + first * left.row_stride + k_begin;  // has the layout of a packed row
        } else if (!left.packed && begin == 0) {
          isa_->pack(left.data + first * left.row_stride + k_begin * left.column_stride, left.row_stride,
                     left.column_stride, product.rows, k, workspace.left.get() + (first - row) * k, product.rows);
        }
        const std::int64_t fetched = panel * product.next_floats * k;
        product.next = fetched < floats_behind ? behind + fetched : nullptr;
        base::yield_point();
        multiply(product, first, begin, end);
      }
      if (epilogue.after == nullptr || k_begin + k < shape_.k || (end < columns && end - complete < kAfterColumns))
        continue;
      for (std::int64_t i = row; i < rows[panels]; ++i)
        (*epilogue.after)(c + i * ldc + block.column_begin + complete, end - complete);
      complete = end;
    }
  }
}

void gemm_f32(const KernelContext& context, const GemmF32& gemm, const GemmOperand& left, const GemmOperand& right,
              float* c, std::int64_t ldc, const Epilogue& epilogue) {
  const GemmF32::Split split = gemm.split(context);
  context.parallel_for(split.tiles(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) gemm.run(split, tile, left, right, c, ldc, epilogue);
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
  const std::int64_t block = block_depth(k);
  for (std::int64_t k_begin = 0; k_begin < k; k_begin += block) {
    const std::int64_t depth = std::min(block, k - k_begin);
    for (std::int64_t row = 0, row_end = 0; row < m; row = row_end) {
      row_end = row_panel_end(isa, m, row);
      const std::int64_t rows = row_end - row;
      isa.pack(left.data + row * left.row_stride + k_begin * left.column_stride, left.row_stride, left.column_stride,
               rows, depth, to + k_begin * m + row * depth, rows);
    }
  }
}

void gemm_f32_pack_right(const GemmOperand& right, std::int64_t k, std::int64_t n, float* to) {
  const GemmF32Isa& isa = gemm_f32_isa();
  const std::int64_t block = block_depth(k), padded = round_up(n, isa.lanes);
  for (std::int64_t k_begin = 0; k_begin < k; k_begin += block) {
    const std::int64_t depth = std::min(block, k - k_begin);
    for (std::int64_t column = 0; column < n; column += isa.columns) {
      pack_right_panel(isa, right, k_begin, depth, column, std::min(isa.columns, n - column),
                       to + k_begin * padded + column * depth);
    }
  }
}

void gemm_f32_transpose(const float* from, std::int64_t column_stride, std::int64_t row_stride, std::int64_t columns,
                        std::int64_t rows, float* to, std::int64_t to_stride) {
  gemm_f32_isa().pack(from, column_stride, row_stride, columns, rows, to, to_stride);
}

std::shared_ptr<const PackedWeights> gemm_f32_packed_left(WeightStore& store, const Tensor& weights,
                                                          const GemmOperand& strides, std::int64_t m, std::int64_t k,
                                                          std::int64_t count, std::int64_t stride,
                                                          std::string_view layout) {
  const std::string name = fmt::format("gemm_f32_left_v3:{}:{}:{}x{}x{}", gemm_f32_isa().name, layout, count, m, k);
  const std::int64_t bytes = gemm_f32_left_bytes(m, k);
  return store.find_or_pack(weights, name, base::checked_multiply(bytes, count),
                            [&](const Tensor& contents, std::byte* to) {
                              GemmOperand left = strides;
                              left.data = contents.data<float>();
                              for (std::int64_t i = 0; i < count; ++i, left.data += stride)
                                gemm_f32_pack_left(left, m, k, reinterpret_cast<float*>(to + i * bytes));
                            });
}

std::shared_ptr<const PackedWeights> gemm_f32_packed_right(WeightStore& store, const Tensor& weights,
                                                           const GemmOperand& strides, std::int64_t k, std::int64_t n,
                                                           std::int64_t count, std::int64_t stride,
                                                           std::string_view layout) {
  const std::string name = fmt::format("gemm_f32_right_v3:{}:{}:{}x{}x{}", gemm_f32_isa().name, layout, count, k, n);
  const std::int64_t bytes = gemm_f32_right_bytes(k, n);
  return store.find_or_pack(weights, name, base::checked_multiply(bytes, count),
                            [&](const Tensor& contents, std::byte* to) {
                              GemmOperand right = strides;
                              right.data = contents.data<float>();
                              for (std::int64_t i = 0; i < count; ++i, right.data += stride)
                                gemm_f32_pack_right(right, k, n, reinterpret_cast<float*>(to + i * bytes));
                            });
}

}  // namespace tessera::backends::cpu
