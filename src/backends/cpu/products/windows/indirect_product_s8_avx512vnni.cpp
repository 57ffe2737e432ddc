// Compiled with AVX-512 VNNI: dot products of four bytes, without saturation.
#include "backends/cpu/products/windows/indirect_product_s8.h"

#if defined(__AVX512VNNI__)
#include "backends/cpu/products/store_s8_avx512.h"

namespace tessera::backends::cpu {
namespace {

// sum += A B over the groups [k, k + depth) of each row; takes two groups per iteration, since pointers to twelve rows
// do not quite fit the registers. The loop around this takes four, since its overhead competes for the ports that
// multiply.
template <int rows, int vectors, int depth>
inline void add_products(const std::uint8_t* const (&row)[rows], std::int64_t k, const std::int8_t* right,
                         __m512i (&sum)[rows][vectors]) {
  __m512i b[depth][vectors];
#pragma GCC unroll 2
  for (int s = 0; s < depth; ++s) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) b[s][j] = _mm512_loadu_si512(right + (s * vectors + j) * 64);
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int s = 0; s < depth; ++s) {
      std::int32_t bytes;
      __builtin_memcpy(&bytes, row[i] + (k + s) * kS8Group, 4);
      const __m512i a = _mm512_set1_epi32(bytes);
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sum[i][j] = _mm512_dpbusd_epi32(sum[i][j], a, b[s][j]);
    }
  }
}

// Prefetches weights of later products into the second-level cache.
struct Ahead {
  const std::int8_t *next, *last;

  inline void fetch() {
    if (next >= last) return;
    _mm_prefetch(next, _MM_HINT_T1);
    _mm_prefetch(next + 64, _MM_HINT_T1);
    next += 128;
  }
};

template <int rows, int vectors>
void multiply_tile(const IndirectProductS8& product, const std::int8_t* right, std::int64_t column, Ahead& weights) {
  Ahead ahead = weights;
  __m512i sum[rows][vectors];
  std::int32_t* partial = product.partial == nullptr ? nullptr : product.partial + column * product.tile_rows;
#pragma GCC unroll 2
  for (int j = 0; j < vectors; ++j) {
    const __m512i start = _mm512_loadu_si512(product.start + column + j * kS8Lanes);
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i)
      sum[i][j] = product.begins ? start : _mm512_load_si512(partial + i * kS8Columns + j * kS8Lanes);
  }
  const std::uint8_t* const* left = product.left;
  for (std::int64_t s = product.segments; s > 0; --s, left += product.tile_rows) {
    const std::uint8_t* row[rows];
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) row[i] = left[i] + product.skipped;
    std::int64_t k = 0;
    for (; k + 3 < product.groups; k += 4, right += 4 * vectors * 64) {
      add_products<rows, vectors, 2>(row, k, right, sum);
      add_products<rows, vectors, 2>(row, k + 2, right + 2 * vectors * 64, sum);
      ahead.fetch();
    }
    if (k + 1 < product.groups) {
      add_products<rows, vectors, 2>(row, k, right, sum);
      k += 2;
      right += 2 * vectors * 64;
    }
    if (k < product.groups) {
      add_products<rows, vectors, 1>(row, k, right, sum);
      right += vectors * 64;
    }
  }
  weights = ahead;
  if (!product.ends) {
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) _mm512_store_si512(partial + i * kS8Columns + j * kS8Lanes, sum[i][j]);
    }
    return;
  }
  store_sums(product, sum, 0, column);
}

template <int rows>
void multiply_any(const IndirectProductS8& product) {
  if (product.rows != rows) {
    if constexpr (rows > 1) multiply_any<rows - 1>(product);
    return;
  }
  const std::int8_t* right = product.right;
  Ahead ahead{product.ahead, product.ahead + product.ahead_bytes};
  const std::int64_t skipped = product.first_group * kS8Group;  // of each column of a panel
  for (std::int64_t column = 0; column < product.columns;
       column += kS8Columns, right += product.panel_groups * kS8Group * kS8Columns) {
    if (product.columns - column <= kS8Lanes)
      multiply_tile<rows, 1>(product, right + skipped * kS8Lanes, column, ahead);
    else multiply_tile<rows, 2>(product, right + skipped * kS8Columns, column, ahead);
  }
}

}  // namespace

void multiply_s8_avx512vnni(const IndirectProductS8& product) {
  multiply_any<kS8Rows>(product);
}

}  // namespace tessera::backends::cpu
#endif
