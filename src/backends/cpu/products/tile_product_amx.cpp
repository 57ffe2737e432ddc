// Compiled with AVX-512 and AMX.
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/tile_product.h"

#if defined(__AMX_TILE__) || defined(__AMXTILE__)  // clang before 16 names it without the underscore
#include "backends/cpu/products/store_bf16_avx512.h"
#include "backends/cpu/products/store_s8_avx512.h"

namespace tessera::backends::cpu {
namespace {

// The operand of LDTILECFG.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

thread_local std::int64_t configured_first = 0,
                          configured_second =
                              0;  // half_rows for which this thread's registers are configured; 0: not configured

struct Tiles {
  static void configure(std::int64_t rows, std::int64_t half_rows) {
    const std::int64_t first = rows < half_rows ? rows : half_rows, second = rows - first;
    if (first == configured_first && second == configured_second) return;
    TileShapes shapes;
    const std::int64_t of_tile[8] = {first, first, second, second, first, second, kTileRows, kTileRows};
    for (int tile = 0; tile < 8; ++tile) {
      if (of_tile[tile] == 0) continue;
      shapes.row_bytes[tile] = kTileBytes;
      shapes.rows[tile] = static_cast<std::uint8_t>(of_tile[tile]);
    }
    asm volatile("ldtilecfg %0" : : "m"(shapes));  // GCC 12's intrinsic declares only eight of the bytes as read
    configured_first = first;
    configured_second = second;
  }
  template <int tile>
  static void load(const std::uint8_t* from, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(tile) : "memory");
  }
  template <int tile>
  static void store(std::uint8_t* to, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(tile) : "memory");
  }
  template <int tile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  // Copies bytes and pads them with zeros to a multiple of 64.
  static void copy(const std::uint8_t* from, std::uint8_t* to, std::int64_t bytes) {
    std::int64_t i = 0;
    for (; i + 64 <= bytes; i += 64) _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
    if (i < bytes)
      _mm512_storeu_si512(to + i, _mm512_maskz_loadu_epi8((std::uint64_t{1} << (bytes - i)) - 1, from + i));
  }
  static void clear(std::uint8_t* to, std::int64_t bytes) {
    for (std::int64_t i = 0; i < bytes; i += 64) _mm512_storeu_si512(to + i, _mm512_setzero_si512());
  }
};

// Rows of sums stored together, so that their bounds and scales stay in registers.
constexpr int kStoredRows = 4;

struct Bf16Sums {
  template <int sum, int a, int b>
  static void add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(a), "i"(b));
  }
  static void add_lanes(std::uint8_t* to, const std::uint8_t* from) {
    _mm512_store_ps(to, _mm512_add_ps(_mm512_load_ps(to), _mm512_load_ps(from)));
  }
  static const float* start(const IndirectProductBf16& product) { return product.bias; }
  static void finish(const IndirectProductBf16& product, const std::uint8_t* sums, std::int64_t column) {
    if (product.columns - column > kPanelColumns / 2) finish_vectors<2>(product, sums, column);
    else finish_vectors<1>(product, sums, column);
  }

 private:
  template <int vectors>
  static void finish_vectors(const IndirectProductBf16& product, const std::uint8_t* sums, std::int64_t column) {
    std::int64_t row = 0;
    for (; row + kStoredRows <= product.rows; row += kStoredRows)
      finish_rows<kStoredRows, vectors>(product, sums, row, column);
    for (; row < product.rows; ++row) finish_rows<1, vectors>(product, sums, row, column);
  }
  template <int rows, int vectors>
  static void finish_rows(const IndirectProductBf16& product, const std::uint8_t* sums, std::int64_t row,
                          std::int64_t column) {
    __m512 sum[rows][vectors];
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sum[i][j] = _mm512_load_ps(sums + ((row + i) * kPanelColumns + j * 16) * 4);
    }
    store_tile(product, sum, row, column, product.columns - column);
  }
};

struct S8Sums {
  template <int sum, int a, int b>
  static void add() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(a), "i"(b));
  }
  static void add_lanes(std::uint8_t* to, const std::uint8_t* from) {
    _mm512_store_si512(to, _mm512_add_epi32(_mm512_load_si512(to), _mm512_load_si512(from)));
  }
  static const std::int32_t* start(const IndirectProductS8& product) { return product.start; }
  static void finish(const IndirectProductS8& product, const std::uint8_t* sums, std::int64_t column) {
    if (product.columns - column > kPanelColumns / 2) finish_vectors<2>(product, sums, column);
    else finish_vectors<1>(product, sums, column);
  }

 private:
  template <int vectors>
  static void finish_vectors(const IndirectProductS8& product, const std::uint8_t* sums, std::int64_t column) {
    std::int64_t row = 0;
    for (; row + kStoredRows <= product.rows; row += kStoredRows)
      finish_rows<kStoredRows, vectors>(product, sums, row, column);
    for (; row < product.rows; ++row) finish_rows<1, vectors>(product, sums, row, column);
  }
  template <int rows, int vectors>
  static void finish_rows(const IndirectProductS8& product, const std::uint8_t* sums, std::int64_t row,
                          std::int64_t column) {
    __m512i sum[rows][vectors];
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sum[i][j] = _mm512_load_si512(sums + ((row + i) * kPanelColumns + j * 16) * 4);
    }
    store_sums(product, sum, row, column);
  }
};

}  // namespace

void multiply_bf16_amx(const IndirectProductBf16& product) {
  multiply_by_tiles<Tiles, Bf16Sums>(product);
}
void multiply_s8_amx(const IndirectProductS8& product) {
  multiply_by_tiles<Tiles, S8Sums>(product);
}

void release_amx() {
  if (configured_first == 0) return;
  _tile_release();
  configured_first = configured_second = 0;
}

}  // namespace tessera::backends::cpu
#endif
