// Compiled with AVX-512 BF16: dot products of pairs.
#include "backends/cpu/products/windows/indirect_product_bf16.h"

#if defined(__AVX512BF16__)
#include <cstddef>

#include "backends/cpu/products/store_bf16_avx512.h"

namespace tessera::backends::cpu {
namespace {

using Product = IndirectProductBf16;
constexpr std::int64_t kDeepGroups = 64;  // with fewer, stores begin early enough without prefetching

// The addresses of the weights of a tile's vectors: two vectors per panel, maybe one in the last.
template <int vectors, int panels>
struct Weights {
  static constexpr int kWidth[2] = {panels == 2 ? 2 : vectors, vectors - 2};  // of each panel

  const std::uint16_t* at[panels];

  // Vector j of group s, counted from the current group.
  inline __m512bh load(int s, int j) const {
    return (__m512bh)_mm512_loadu_si512(at[j / 2] + (s * kWidth[j / 2] + j % 2) * 32);
  }
  inline void advance(int groups) {
#pragma GCC unroll 2
    for (int i = 0; i < panels; ++i) at[i] += groups * kWidth[i] * 32;
  }
};

// sum += A B over the groups [k, k + depth) of each row; takes two groups per iteration, since pointers to twelve rows
// do not quite fit the registers.
template <int rows, int vectors, int panels, int depth>
inline void add_products(const std::uint16_t* const (&row)[rows], std::int64_t k, Weights<vectors, panels>& right,
                         __m512 (&sum)[rows][vectors]) {
  __m512bh b[depth][vectors];
#pragma GCC unroll 2
  for (int s = 0; s < depth; ++s) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) b[s][j] = right.load(s, j);
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int s = 0; s < depth; ++s) {
      std::int32_t pair;
      __builtin_memcpy(&pair, row[i] + (k + s) * Product::kGroup, 4);
      const auto a = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], a, b[s][j]);
    }
  }
  right.advance(depth);
}

// Prefetches weights of later products into the second-level cache.
struct Ahead {
  const std::byte *next, *last;

  inline void fetch() {
    if (next >= last) return;
    _mm_prefetch(next, _MM_HINT_T1);
    next += 64;
  }
};

// Prefetches the addend and result of a tile into the first-level cache while its sums are computed.
inline void fetch_rows(const Product& product, std::int64_t first_row, int rows, std::int64_t column) {
  const auto fetch = [&](const void* matrix, bool rounded) {
    const std::int64_t bytes = rounded ? 2 : 4;
    const auto* from = static_cast<const std::byte*>(matrix) + (first_row * product.ldc + column) * bytes;
    for (int i = 0; i < rows; ++i, from += product.ldc * bytes) {
      _mm_prefetch(from, _MM_HINT_T0);
      if (!rounded) _mm_prefetch(from + 64, _MM_HINT_T0);
    }
  };
  if (product.addend != nullptr) fetch(product.addend, product.rounded_addend);
  fetch(product.c, product.rounded_c);
}

// Multiplies `rows` rows of the product, from first_row on.
template <int rows, int vectors, int panels>
void multiply_tile(const Product& product, std::int64_t first_row, Weights<vectors, panels> right, std::int64_t column,
                   Ahead& weights) {
  Ahead ahead = weights;
  __m512 sum[rows][vectors];
  const auto partial = [&](int i, int j) {
    return product.partial + (column + j / 2 * Product::kColumns) * product.tile_rows +
           (first_row + i) * Product::kColumns + j % 2 * Product::kLanes;
  };
#pragma GCC unroll 4
  for (int j = 0; j < vectors; ++j) {
    const __m512 bias = _mm512_loadu_ps(product.bias + column + j * Product::kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) sum[i][j] = product.begins ? bias : _mm512_load_ps(partial(i, j));
  }
  if (product.ends && product.segments * product.groups >= kDeepGroups) fetch_rows(product, first_row, rows, column);
  const std::uint16_t* const* left = product.left + first_row;
  for (std::int64_t s = product.segments; s > 0; --s, left += product.tile_rows) {
    const std::uint16_t* row[rows];
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) row[i] = left[i] + product.skipped;
    std::int64_t k = 0;
    for (; k + 1 < product.groups; k += 2) {
      add_products<rows, vectors, panels, 2>(row, k, right, sum);
      ahead.fetch();
    }
    if (k < product.groups) add_products<rows, vectors, panels, 1>(row, k, right, sum);
  }
  weights = ahead;
  if (!product.ends) {
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) _mm512_store_ps(partial(i, j), sum[i][j]);
    }
    return;
  }
  store_tile(product, sum, first_row, column, product.columns - column);
}

// Multiplies by two panels of which the second has a single vector, which on its own would be limited by loads: all
// rows at once, or one half of them after the other.
template <int rows>
void multiply_three(const Product& product, const Weights<3, 2>& right, std::int64_t column, Ahead& ahead) {
  constexpr int kMostRows = 8;  // whose sums fit the registers
  if constexpr (rows <= kMostRows) {
    multiply_tile<rows>(product, 0, right, column, ahead);
  } else {
    multiply_tile<(rows + 1) / 2>(product, 0, right, column, ahead);
    multiply_tile<rows / 2>(product, (rows + 1) / 2, right, column, ahead);
  }
}

template <int rows>
void multiply_any(const Product& product) {
  if (product.rows != rows) {
    if constexpr (rows > 1) multiply_any<rows - 1>(product);
    return;
  }
  constexpr int kFewRows = 2;
  const std::int64_t skipped = product.first_group * Product::kGroup;  // of each column of a panel
  const std::int64_t panel = product.panel_groups * Product::kGroup * Product::kColumns;
  const std::uint16_t* right = product.right;
  const auto* next = reinterpret_cast<const std::byte*>(product.ahead);
  Ahead ahead{next, next + product.ahead_bytes};
  for (std::int64_t column = 0; column < product.columns;) {
    const std::int64_t left_over = product.columns - column;
    const std::uint16_t* whole = right + skipped * Product::kColumns;
    if constexpr (rows <= kFewRows) {  // two panels at a time, for enough independent sums
      if (left_over > 2 * Product::kColumns - Product::kLanes) {
        multiply_tile<rows>(product, 0, Weights<4, 2>{{whole, whole + panel}}, column, ahead);
        column += 2 * Product::kColumns;
        right += 2 * panel;
        continue;
      }
    }
    if (left_over > Product::kColumns && left_over <= Product::kColumns + Product::kLanes) {
      return multiply_three<rows>(product, Weights<3, 2>{{whole, right + panel + skipped * Product::kLanes}}, column,
                                  ahead);
    }
    if (left_over <= Product::kLanes)
      multiply_tile<rows>(product, 0, Weights<1, 1>{{right + skipped * Product::kLanes}}, column, ahead);
    else multiply_tile<rows>(product, 0, Weights<2, 1>{{whole}}, column, ahead);
    column += Product::kColumns;
    right += panel;
  }
}

}  // namespace

void multiply_bf16_avx512bf16(const IndirectProductBf16& product) {
  multiply_any<Product::kMostRows>(product);
}

}  // namespace tessera::backends::cpu
#endif
