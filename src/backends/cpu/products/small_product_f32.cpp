#include "backends/cpu/products/small_product_f32.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/products/gemm_f32.h"
#include "base/numbers/checked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/products/small_product_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef TESSERA_BACKENDS_CPU_SMALL_PRODUCT_LIMITS
#define TESSERA_BACKENDS_CPU_SMALL_PRODUCT_LIMITS
namespace tessera::backends::cpu {

constexpr std::int64_t kSmallPanelFloats = 8192;  // of B, rounded up to 16 columns: fits the first-level cache
constexpr std::int64_t kSmallDepth = 512;         // the depth that GemmF32 sums in one block
constexpr std::int64_t kSmallLeastRows = 4;       // with fewer rows B is read only once, which GemmF32 does in place

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);

// The accumulators, the vectors of B and a broadcast of A fit the registers.
#if HWY_TARGET == HWY_AVX3
constexpr int kRows = 12;
#elif HWY_TARGET == HWY_SCALAR
constexpr int kRows = 3;
#else
constexpr int kRows = 6;
#endif
constexpr int kVectors = 2;
constexpr std::int64_t kSymmetricRows = kRows * 2 / 3;  // tiles with fewer rows end closer to the diagonal

// A register tile: some rows and columns of C.
struct Tile {
  const float* a;  // element (i, k) at a[i * row_stride + k * depth_stride]
  std::int64_t row_stride, depth_stride, depth;
  const float* b;  // row k at b + k * right_stride
  std::int64_t right_stride;
  float* c;
  std::int64_t c_stride, columns;  // the tile's last vector has at least one column
};

template <int rows, int vectors>
void multiply(const Tile& tile) {
  const D d;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(tile.columns - (vectors - 1) * kLanes));
  V sum[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) sum[i][j] = hn::Zero(d);
  }
  const float *a = tile.a, *b = tile.b;
  for (std::int64_t k = tile.depth; k > 0; --k, a += tile.depth_stride, b += tile.right_stride) {
    V right[vectors];
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j)
      right[j] = j + 1 < vectors ? hn::LoadU(d, b + j * kLanes) : hn::MaskedLoad(mask, d, b + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const V left = hn::Set(d, a[i * tile.row_stride]);
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    float* c = tile.c + i * tile.c_stride;
#pragma GCC unroll 2
    for (int j = 0; j + 1 < vectors; ++j) hn::StoreU(sum[i][j], d, c + j * kLanes);
    hn::BlendedStore(sum[i][vectors - 1], mask, d, c + (vectors - 1) * kLanes);
  }
}

using MultiplyTile = void (*)(const Tile&);
template <int vectors, int... i>
constexpr std::array<MultiplyTile, kRows> tiles_of(std::integer_sequence<int, i...>) {
  return {multiply<i + 1, vectors>...};
}
// Indexed by [vectors - 1][rows - 1].
constexpr std::array<MultiplyTile, kRows> kTiles[kVectors] = {tiles_of<1>(std::make_integer_sequence<int, kRows>()),
                                                              tiles_of<2>(std::make_integer_sequence<int, kRows>())};

void product(const SmallProduct& product, const float* a, const float* b, float* c) {
  const auto [m, n, k, transposed_left, transposed_right, symmetric] = product;
  alignas(64) float panel[kSmallPanelFloats];
  Tile tile{a, transposed_left ? 1 : k, transposed_left ? m : 1, k, b, n, c, n, 0};
  if (transposed_right) {
    tile.right_stride = base::round_up(n, kLanes);
    gemm_f32_transpose(b, k, 1, n, k, panel, tile.right_stride);  // sums of padded columns are not used
    tile.b = panel;
  }
  const float* right = tile.b;
  const std::int64_t most = symmetric ? kSymmetricRows : kRows, blocks = base::ceil_divide(m, most);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t row = m * block / blocks, end = m * (block + 1) / blocks;
    const std::int64_t columns = symmetric ? std::min(n, base::round_up(end, kLanes)) : n;
    tile.a = a + row * tile.row_stride;
    for (std::int64_t column = 0; column < columns; column += kVectors * kLanes) {
      tile.columns = std::min(kVectors * kLanes, columns - column);
      tile.b = right + column;
      tile.c = c + row * n + column;
      kTiles[(tile.columns - 1) / kLanes][end - row - 1](tile);
    }
  }
  if (!symmetric) return;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t end = m * (block + 1) / blocks, columns = base::round_up(end, kLanes);
    for (std::int64_t row = m * block / blocks; row < end; ++row) {
      for (std::int64_t column = columns; column < n; ++column) c[row * n + column] = c[column * n + row];
    }
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(product);

bool small_product_fits(const SmallProduct& product) {
  return product.m >= kSmallLeastRows && product.n > 0 && product.k > 0 && product.k <= kSmallDepth &&
         base::round_up(product.n, std::int64_t{16}) <= kSmallPanelFloats / product.k;
}

void small_product(const SmallProduct& product, const float* a, const float* b, float* c) {
  HWY_DYNAMIC_DISPATCH(product)(product, a, b, c);
}

}  // namespace tessera::backends::cpu
#endif
