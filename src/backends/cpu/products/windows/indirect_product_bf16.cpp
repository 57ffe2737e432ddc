#include "backends/cpu/products/windows/indirect_product_bf16.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/tile_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/products/windows/indirect_product_bf16.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/element_wise/vector_bf16.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Product = IndirectProductBf16;
using D = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<D>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);
constexpr int kRows = HWY_TARGET == HWY_AVX3 ? 12 : 4, kVectors = HWY_TARGET == HWY_SCALAR ? 4 : 2;

// The address of the partial sums, kept between parts of the depth.
float* partial_sums(const Product& product, std::int64_t row, std::int64_t column) {
  return product.partial + column / Product::kColumns * Product::kColumns * product.tile_rows +
         row * Product::kColumns + column % Product::kColumns;
}

// Finishes and stores a vector of sums. `whole`: all lanes are columns, otherwise the first `count`.
template <bool whole>
HWY_INLINE void store(const Product& product, V value, std::int64_t at, std::int64_t count) {
  const D d;
  HWY_ALIGN float lanes[hn::MaxLanes(d)] = {};
  if (product.addend != nullptr) {
    const float* floats = static_cast<const float*>(product.addend) + at;
    if (product.rounded_addend)
      bf16::widen_row(static_cast<const std::uint16_t*>(product.addend) + at, lanes, whole ? kLanes : count);
    else if (!whole) std::copy_n(floats, count, lanes);
    value = hn::Add(value, whole && !product.rounded_addend ? hn::LoadU(d, floats) : hn::Load(d, lanes));
  }
  const V low = hn::Set(d, product.low), high = hn::Set(d, product.high);
  value = hn::IfThenElse(hn::Lt(value, low), low, value);  // NaN stays
  value = hn::IfThenElse(hn::Gt(value, high), high, value);
  if (whole && !product.rounded_c) return hn::StoreU(value, d, static_cast<float*>(product.c) + at);
  hn::Store(value, d, lanes);
  if (product.rounded_c) bf16::round_row(lanes, static_cast<std::uint16_t*>(product.c) + at, whole ? kLanes : count);
  else std::copy_n(lanes, count, static_cast<float*>(product.c) + at);
}

// Finishes and stores a tile of rows × vectors. Not inlined, so that the inner loop keeps all registers.
HWY_NOINLINE void store_tile(const Product& product, const float* sums, std::int64_t first, std::int64_t rows,
                             std::int64_t vectors, std::int64_t column) {
  const D d;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < vectors; ++j, sums += kLanes) {
      const std::int64_t at = column + j * kLanes, count = product.columns - at, place = (first + i) * product.ldc + at;
      if (count >= kLanes) store<true>(product, hn::Load(d, sums), place, kLanes);
      else if (count > 0) store<false>(product, hn::Load(d, sums), place, count);
    }
  }
}

// The rows of A, contiguous and widened to float32 once for all panels.
struct Rows {
  const float* data;
  std::int64_t length;

  explicit Rows(const Product& product) : length(product.segments * product.groups * Product::kGroup) {
    thread_local std::vector<float> widened;
    widened.resize(static_cast<std::size_t>(product.rows * length));
    float* to = widened.data();
    data = to;
    for (std::int64_t i = 0; i < product.rows; ++i) {
      for (std::int64_t s = 0; s < product.segments; ++s, to += product.groups * Product::kGroup) {
        bf16::widen_row(product.left[s * product.tile_rows + i] + product.skipped, to,
                        product.groups * Product::kGroup);
      }
    }
  }
};

// sum += A B for one group of each row: a pair of bfloat16 numbers at `k` of the row, the odd one first.
template <int rows, int vectors>
HWY_INLINE void add_products(const float* const (&row)[rows], std::int64_t k, const std::uint16_t* right,
                             V (&sum)[rows][vectors]) {
  const D d;
  const DU du;
  V even[vectors], odd[vectors];
#pragma GCC unroll 4
  for (int j = 0; j < vectors; ++j) {
    const auto pair = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(right) + j * kLanes);
    even[j] = hn::BitCast(d, hn::ShiftLeft<16>(pair));
    odd[j] = hn::BitCast(d, hn::And(pair, hn::Set(du, 0xFFFF0000u)));
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
    const V a0 = hn::Set(d, row[i][k]), a1 = hn::Set(d, row[i][k + 1]);
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) sum[i][j] = hn::MulAdd(a0, even[j], hn::MulAdd(a1, odd[j], sum[i][j]));
  }
}

// Multiplies some rows, from `first` on, by some vectors of a panel with `width` columns; `right` points at the first
// of these vectors.
template <int rows, int vectors>
void multiply_tile(const Product& product, const Rows& left, std::int64_t first, const std::uint16_t* right,
                   std::int64_t width, std::int64_t column) {
  const D d;
  V sum[rows][vectors];
#pragma GCC unroll 4
  for (int j = 0; j < vectors; ++j) {
    const V bias = hn::LoadU(d, product.bias + column + j * kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i)
      sum[i][j] = product.begins ? bias : hn::LoadU(d, partial_sums(product, first + i, column + j * kLanes));
  }
  const float* row[rows];
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) row[i] = left.data + (first + i) * left.length;
  const std::int64_t step = width * Product::kGroup;
  std::int64_t k = 0;
  // Takes two groups per iteration, since pointers to twelve rows do not quite fit the registers.
  for (; k + Product::kGroup < left.length; k += 2 * Product::kGroup, right += 2 * step) {
    add_products<rows, vectors>(row, k, right, sum);
    add_products<rows, vectors>(row, k + Product::kGroup, right + step, sum);
  }
  if (k < left.length) add_products<rows, vectors>(row, k, right, sum);
  HWY_ALIGN float tile[rows * vectors * kLanes];
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      hn::StoreU(
          sum[i][j], d,
          product.ends ? tile + (i * vectors + j) * kLanes : partial_sums(product, first + i, column + j * kLanes));
  }
  if (product.ends) store_tile(product, tile, first, rows, vectors, column);
}

template <int most, int vectors>
void multiply_rows(const Product& product, const Rows& left, std::int64_t first, const std::uint16_t* right,
                   std::int64_t width, std::int64_t column) {
  for (; first + most <= product.rows; first += most)
    multiply_tile<most, vectors>(product, left, first, right, width, column);
  if constexpr (most > 1) {
    if (first < product.rows) multiply_rows<most - 1, vectors>(product, left, first, right, width, column);
  }
}

void multiply_widened(const Product& product) {
  const Rows left(product);
  const std::uint16_t* right = product.right;
  for (std::int64_t column = 0; column < product.columns; column += Product::kColumns) {
    const std::int64_t left_over = std::min(Product::kColumns, product.columns - column),
                       width = (left_over + Product::kLanes - 1) / Product::kLanes * Product::kLanes;
    const std::uint16_t* part = right + product.first_group * width * Product::kGroup;
    std::int64_t lane = 0;
    for (; lane + kVectors * kLanes <= width; lane += kVectors * kLanes)
      multiply_rows<kRows, kVectors>(product, left, 0, part + lane * Product::kGroup, width, column + lane);
    // The last panel may have a single vector.
    for (; lane < width; lane += kLanes)
      multiply_rows<kRows, 1>(product, left, 0, part + lane * Product::kGroup, width, column + lane);
    right += product.panel_groups * width * Product::kGroup;
  }
}

}  // namespace

auto widening_multiplier() -> void (*)(const IndirectProductBf16&) {
  return multiply_widened;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(widening_multiplier);

MultiplierBf16 multiplier_bf16([[maybe_unused]] std::int64_t rows) {
  if (emulates_tiles()) return {multiply_bf16_emulated, kProductRows, kTileGroups, true, false};
#if defined(__x86_64__)
  if (active_tiles() && rows >= kFewestTileRows) return {multiply_bf16_amx, kProductRows, kTileGroups, true, true};
  if (active_bf16()) return {multiply_bf16_avx512bf16, IndirectProductBf16::kMostRows, 1, false, true};
#endif
  return {HWY_DYNAMIC_DISPATCH(widening_multiplier)(), IndirectProductBf16::kMostRows, 1, false, false};
}

}  // namespace tessera::backends::cpu
#endif
