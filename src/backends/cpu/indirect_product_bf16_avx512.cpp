// Compiled with AVX-512 BF16: dot products of pairs.
#include "backends/cpu/indirect_product_bf16.h"

#if defined(__AVX512BF16__)
#include <cstddef>

#include "backends/cpu/store_bf16_avx512.h"

namespace tessera::backends::cpu {
namespace {

using Product = IndirectProductBf16;
constexpr std::int64_t kDeepGroups = 64;  // of products of fewer, what follows a tile begins before it ends

// sum += A B over the groups [k, k + depth) of each row: two at a time, since pointers to twelve rows do not quite fit the registers. The vectors lie in
// `panels` panels, `panel` numbers apart.
template <int rows, int vectors, int panels, int depth>
inline void add_products(const std::uint16_t* const (&row)[rows], std::int64_t k, const std::uint16_t* right, std::int64_t panel, __m512 (&sum)[rows][vectors]) {
  constexpr int width = vectors / panels;
  __m512bh b[depth][vectors];
#pragma GCC unroll 2
  for (int s = 0; s < depth; ++s) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) b[s][j] = (__m512bh)_mm512_loadu_si512(right + j / width * panel + (s * width + j % width) * 32);
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
}

// Weights of later products on their way to the second-level cache.
struct Ahead {
  const std::byte *next, *last;

  inline void fetch() {
    if (next >= last) return;
    _mm_prefetch(next, _MM_HINT_T1);
    next += 64;
  }
};

// What a tile's sums are added to and where they go, on the way to the first-level cache while they are computed.
inline void fetch_rows(const Product& product, int rows, std::int64_t column) {
  const auto fetch = [&](const void* matrix, bool rounded) {
    const std::int64_t bytes = rounded ? 2 : 4;
    const auto* from = static_cast<const std::byte*>(matrix) + column * bytes;
    for (int i = 0; i < rows; ++i, from += product.ldc * bytes) {
      _mm_prefetch(from, _MM_HINT_T0);
      if (!rounded) _mm_prefetch(from + 64, _MM_HINT_T0);
    }
  };
  if (product.addend != nullptr) fetch(product.addend, product.rounded_addend);
  fetch(product.c, product.rounded_c);
}

template <int rows, int vectors, int panels>
void multiply_tile(const Product& product, const std::uint16_t* right, std::int64_t column, Ahead& weights) {
  Ahead ahead = weights;
  constexpr int width = vectors / panels;
  __m512 sum[rows][vectors];
  const auto partial = [&](int i, int j) {
    return product.partial + (column + j / width * Product::kColumns) * product.tile_rows + i * Product::kColumns + j % width * Product::kLanes;
  };
#pragma GCC unroll 4
  for (int j = 0; j < vectors; ++j) {
    const __m512 bias = _mm512_loadu_ps(product.bias + column + j * Product::kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) sum[i][j] = product.begins ? bias : _mm512_load_ps(partial(i, j));
  }
  if (product.ends && product.segments * product.groups >= kDeepGroups) fetch_rows(product, rows, column);
  const std::int64_t panel = product.panel_groups * Product::kGroup * Product::kColumns;
  const std::uint16_t* const* left = product.left;
  for (std::int64_t s = product.segments; s > 0; --s, left += product.tile_rows) {
    const std::uint16_t* row[rows];
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) row[i] = left[i] + product.skipped;
    std::int64_t k = 0;
    for (; k + 1 < product.groups; k += 2, right += 2 * width * 32) {
      add_products<rows, vectors, panels, 2>(row, k, right, panel, sum);
      ahead.fetch();
    }
    if (k < product.groups) {
      add_products<rows, vectors, panels, 1>(row, k, right, panel, sum);
      right += width * 32;
    }
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
  store_tile(product, sum, 0, column, product.columns - column);
}

template <int rows>
void multiply_any(const Product& product) {
  if (product.rows != rows) {
    if constexpr (rows > 1) multiply_any<rows - 1>(product);
    return;
  }
  constexpr int kFewRows = 2;
  const std::uint16_t* right = product.right;
  const std::int64_t skipped = product.first_group * Product::kGroup;  // of each column of a panel
  const std::int64_t panel = product.panel_groups * Product::kGroup * Product::kColumns;
  const auto* next = reinterpret_cast<const std::byte*>(product.ahead);
  Ahead ahead{next, next + product.ahead_bytes};
  std::int64_t column = 0;
  if constexpr (rows <= kFewRows) {  // two panels at a time, for enough sums that do not wait for each other
    for (; product.columns - column > 2 * Product::kColumns - Product::kLanes; column += 2 * Product::kColumns, right += 2 * panel) {
      multiply_tile<rows, 4, 2>(product, right + skipped * Product::kColumns, column, ahead);
    }
  }
  for (; column < product.columns; column += Product::kColumns, right += panel) {
    if (product.columns - column <= Product::kLanes) multiply_tile<rows, 1, 1>(product, right + skipped * Product::kLanes, column, ahead);
    else multiply_tile<rows, 2, 1>(product, right + skipped * Product::kColumns, column, ahead);
  }
}

}  // namespace

void multiply_bf16_avx512(const IndirectProductBf16& product) { multiply_any<Product::kMostRows>(product); }

void round_to_bf16_row_avx512(const float* x, std::uint16_t* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i)));
  if (i == count) return;
  const auto mask = static_cast<__mmask16>((1 << (count - i)) - 1);
  _mm256_mask_storeu_epi16(y + i, mask, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i)));
}

void round_pictures_avx512(const float* x, std::uint16_t* y, std::int64_t pixels) {
  constexpr __mmask16 kThree = 0x7777;  // of every four
  const __m512i place = _mm512_setr_epi32(0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0, 9, 10, 11, 0);
  const auto spread = [&](__m512 numbers) { return (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_permutexvar_ps(kThree, place, numbers)); };
  for (; pixels >= 6; pixels -= 4, x += 12, y += 16) _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), spread(_mm512_loadu_ps(x)));  // reads four numbers more
  for (; pixels > 0; --pixels, x += 3, y += 4) _mm256_mask_storeu_epi16(y, 0xF, spread(_mm512_maskz_loadu_ps(0x7, x)));
}

}  // namespace tessera::backends::cpu
#endif
