#include "backends/cpu/products/gemm_f32_isa.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/products/gemm_f32_isa.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);

// Size of the register tile: its accumulators, vectors of B and a broadcast of A fit the vector registers, 32 with
// AVX-512, 16 with AVX2 and SSE. With AVX-512 loads are scarcer than registers: some processors start little more than
// one 512-bit load per cycle, but two multiply-adds. Half of the rows times four vectors take 10 loads for 24
// multiply-adds, all rows times two vectors take 14.
#if HWY_TARGET == HWY_SCALAR
constexpr int kRows = 3, kVectors = 4;
constexpr const char* kName = "scalar";
#elif HWY_TARGET == HWY_AVX3
constexpr int kRows = 12, kVectors = 4;
constexpr const char* kName = "avx512";
#elif HWY_TARGET == HWY_AVX2
constexpr int kRows = 6, kVectors = 2;
constexpr const char* kName = "avx2";
#else
constexpr int kRows = 6, kVectors = 2;
constexpr const char* kName = "portable";
#endif
constexpr std::int64_t kColumns = kVectors * kLanes;
constexpr int kUnroll = 4;      // steps of k, so that loop overhead takes few of the processor's slots
constexpr int kCacheLine = 16;  // in floats

// Applies the epilogue to one vector of columns, row after row. `whole`: all lanes are columns, otherwise those of
// `mask`.
template <bool whole>
HWY_INLINE void store_column(const PanelProduct& product, const float* sums, std::int64_t stride,
                             std::int64_t first_row, std::int64_t rows, float* c, std::int64_t column, bool accumulate,
                             hn::Mask<D> mask) {
  const D d;
  const auto load = [&](const float* from)
                        HWY_ATTR { return whole ? hn::LoadU(d, from) : hn::MaskedLoad(mask, d, from); };
  const bool ends = product.epilogue != nullptr;
  const Epilogue epilogue = ends ? *product.epilogue : Epilogue{};
  const std::int64_t ldc = product.ldc;
  const V scale = hn::Set(d, epilogue.scale),
          bias = epilogue.bias != nullptr ? load(epilogue.bias + column) : hn::Zero(d);
  const V addend_scale = hn::Set(d, epilogue.addend_scale);
  const V low = hn::Set(d, epilogue.activation == Activation::relu ? 0.0f : epilogue.low),
          high = hn::Set(d, epilogue.high);
  const float* addend = epilogue.addend == nullptr ? nullptr
                                                   : epilogue.addend + first_row * epilogue.addend_row_stride +
                                                         column * epilogue.addend_column_stride;
  for (std::int64_t i = 0; i < rows; ++i, sums += stride, c += ldc) {
    V value = hn::LoadU(d, sums);
    if (accumulate) value = hn::Add(value, load(c));
    if (ends) {
      value = hn::Mul(value, scale);
      if (epilogue.bias != nullptr) value = hn::Add(value, bias);
      if (addend != nullptr) {
        const V term = epilogue.addend_column_stride == 0 ? hn::Set(d, *addend) : load(addend);
        value = hn::MulAdd(addend_scale, term, value);
        addend += epilogue.addend_row_stride;
      }
      // Comparisons instead of Max and Min, so that NaN stays NaN.
      if (epilogue.activation != Activation::none) value = hn::IfThenElse(hn::Lt(value, low), low, value);
      if (epilogue.activation == Activation::clip) value = hn::IfThenElse(hn::Gt(value, high), high, value);
    }
    if constexpr (whole) hn::StoreU(value, d, c);
    else hn::BlendedStore(value, mask, d, c);
  }
}

// Applies bias, scale and activation to a tile of sums and stores it to C. Not inlined, so that the inner loop keeps
// all registers.
void store_tile(const PanelProduct& product, const float* tile, std::int64_t tile_stride, std::int64_t first_row,
                std::int64_t rows, std::int64_t columns, float* c, std::int64_t first_column, bool accumulate) {
  const D d;
  std::int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes)
    store_column<true>(product, tile + j, tile_stride, first_row, rows, c + j, first_column + j, accumulate,
                       hn::FirstN(d, kLanes));
  if (j < columns)
    store_column<false>(product, tile + j, tile_stride, first_row, rows, c + j, first_column + j, accumulate,
                        hn::FirstN(d, static_cast<std::size_t>(columns - j)));
}

// Panels of B that are multiplied at once by few rows: with one panel, each addition would wait for the previous one.
template <int rows>
constexpr int kTogether = kVectors == 4 ? (rows == 1 ? 2 : 1)
                          : rows == 1   ? 4
                          : rows == 2   ? 2
                                        : 1;
// Rows of a tile that is `vectors` wide, such that its sums fit the registers.
template <int vectors>
constexpr int kTileRows = HWY_TARGET == HWY_AVX3 && vectors > 2 ? 6 : kRows;

// Multiplies `rows` rows of the panel of A, from `first_row` on, by `panels` panels of B. `parts`: the number of tiles
// into which the panel's rows are split.
template <int rows, int vectors, int panels = 1, int parts = 1>
void multiply_tile(const PanelProduct& product, std::int64_t first_row, const float* right, std::int64_t right_stride,
                   std::int64_t columns, std::int64_t first_column) {
  const D d;
  constexpr int all = panels * vectors;
  V sum[rows][all];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < all; ++j) sum[i][j] = hn::Zero(d);
  }
  float* c = product.c + first_row * product.ldc + first_column;
  if (rows > 2) {  // with fewer rows, the loop ends before the prefetched lines arrive
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      __builtin_prefetch(c + i * product.ldc, 1);
      __builtin_prefetch(c + i * product.ldc + columns - 1, 1);
    }
  }
  const auto step = [&](const float* a_row, const float* b_row) HWY_ATTR {
    V b[all];
#pragma GCC unroll 8
    for (int j = 0; j < all; ++j)
      b[j] = hn::LoadU(d, b_row + j / vectors * product.right_panel_stride + j % vectors * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const V a = hn::Set(d, a_row[i]);
#pragma GCC unroll 8
      for (int j = 0; j < all; ++j) sum[i][j] = hn::MulAdd(a, b[j], sum[i][j]);
    }
  };
  const std::int64_t left_stride = product.rows;
  const float *left = product.left + first_row, *next = left;
  constexpr int kNextLines = kUnroll * PanelProduct::kMostNextFloats / parts / kCacheLine;
  std::int64_t k = product.k, turn_floats = 0;
  if (product.next != nullptr) {
    next = product.next + (first_row > 0 ? k * product.next_floats / parts : 0);
    turn_floats = kUnroll * product.next_floats / parts;
  }
  for (; k >= kUnroll; k -= kUnroll) {
#pragma GCC unroll 4
    for (int s = 0; s < kUnroll; ++s, left += left_stride, right += right_stride) step(left, right);
#pragma GCC unroll 4
    for (int s = 0; s < kNextLines; ++s) __builtin_prefetch(next + s * turn_floats / kNextLines, 0, 2);
    next += turn_floats;
  }
  for (; k > 0; --k, left += left_stride, right += right_stride) step(left, right);
  const bool whole = columns == all * kLanes, accumulate = product.accumulate;
  if (whole && accumulate) {
    // All loads before any store: if rows of C are a multiple of 4 KB apart, a load would wait for the store to the
    // previous row.
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < all; ++j) sum[i][j] = hn::Add(sum[i][j], hn::LoadU(d, c + i * product.ldc + j * kLanes));
    }
  }
  const bool adds_bias = product.epilogue != nullptr && product.epilogue->bias != nullptr &&
                         product.epilogue->scale == 1 && product.epilogue->addend == nullptr &&
                         product.epilogue->activation == Activation::none;
  if (whole && adds_bias) {
#pragma GCC unroll 8
    for (int j = 0; j < all; ++j) {
      const V bias = hn::LoadU(d, product.epilogue->bias + first_column + j * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) sum[i][j] = hn::Add(sum[i][j], bias);
    }
  }
  const bool direct = whole && (product.epilogue == nullptr || adds_bias);
  HWY_ALIGN float tile[rows * all * kLanes];
  float* to = direct ? c : tile;
  const std::int64_t stride = direct ? product.ldc : all * kLanes;
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < all; ++j) hn::StoreU(sum[i][j], d, to + i * stride + j * kLanes);
  }
  if (!direct) store_tile(product, tile, all * kLanes, first_row, rows, columns, c, first_column, accumulate && !whole);
}

// Multiplies the panel of A by one panel of B: in one tile, or in two with half of the rows each.
template <int rows, int vectors>
HWY_INLINE void multiply_panel(const PanelProduct& product, const float* right, std::int64_t columns,
                               std::int64_t column) {
  const std::int64_t stride = product.right_row_stride != 0 ? product.right_row_stride : vectors * kLanes;
  if constexpr (rows <= kTileRows<vectors>) {
    multiply_tile<rows, vectors>(product, 0, right, stride, columns, column);
  } else {
    multiply_tile<(rows + 1) / 2, vectors, 1, 2>(product, 0, right, stride, columns, column);
    multiply_tile<rows / 2, vectors, 1, 2>(product, (rows + 1) / 2, right, stride, columns, column);
  }
}

template <int rows>
void multiply_rows(const PanelProduct& product) {
  const float* right = product.right;
  std::int64_t column = 0;
  if constexpr (kTogether<rows> > 1) {
    constexpr std::int64_t together = kTogether<rows> * kColumns;
    const std::int64_t stride = product.right_row_stride != 0 ? product.right_row_stride : kColumns;
    for (; column + together <= product.columns;
         column += together, right += kTogether<rows> * product.right_panel_stride) {
      multiply_tile<rows, kVectors, kTogether<rows>>(product, 0, right, stride, together, column);
    }
  }
  for (; column < product.columns; column += kColumns, right += product.right_panel_stride) {
    const std::int64_t columns = std::min(kColumns, product.columns - column);
    switch ((columns + kLanes - 1) / kLanes) {
      case 1:
        multiply_panel<rows, 1>(product, right, columns, column);
        break;
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_AVX3
      case 2:
        multiply_panel<rows, 2>(product, right, columns, column);
        break;
      case 3:
        multiply_panel<rows, 3>(product, right, columns, column);
        break;
#endif
      default:
        multiply_panel<rows, kVectors>(product, right, columns, column);
        break;
    }
  }
}

void multiply(const PanelProduct& product) {
  switch (product.rows) {
    case 1:
      return multiply_rows<1>(product);
    case 2:
      return multiply_rows<2>(product);
    case 3:
      return multiply_rows<3>(product);
#if HWY_TARGET != HWY_SCALAR
    case 4:
      return multiply_rows<4>(product);
    case 5:
      return multiply_rows<5>(product);
    case 6:
      return multiply_rows<6>(product);
#endif
#if HWY_TARGET == HWY_AVX3
    case 7:
      return multiply_rows<7>(product);
    case 8:
      return multiply_rows<8>(product);
    case 9:
      return multiply_rows<9>(product);
    case 10:
      return multiply_rows<10>(product);
    case 11:
      return multiply_rows<11>(product);
    case 12:
      return multiply_rows<12>(product);
#endif
    default:
      return;
  }
}

// Packs an operand that is contiguous along the width by copying whole rows.
void pack_rows(const float* from, std::int64_t k_stride, std::int64_t width, std::int64_t k, float* to,
               std::int64_t to_stride) {
  const D d;
  const std::int64_t whole = width / kLanes * kLanes;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(width - whole));
  for (std::int64_t row = 0; row < k; ++row, from += k_stride, to += to_stride) {
    for (std::int64_t j = 0; j < whole; j += kLanes) hn::StoreU(hn::LoadU(d, from + j), d, to + j);
    if (whole < width) hn::BlendedStore(hn::MaskedLoad(mask, d, from + whole), mask, d, to + whole);
  }
}

#if HWY_TARGET != HWY_SCALAR
// Packs an operand that is contiguous along k, four lines at a time through 4 × 4 transposes; the last four lines may
// overlap earlier ones. Takes one cache line of every line before the next, the fastest order for memory. Returns the
// number of lines packed: `width`, or 0 if there are fewer than four.
std::int64_t pack_transposed(const float* from, std::int64_t width_stride, std::int64_t width, std::int64_t k,
                             float* to, std::int64_t to_stride) {
  if (width < 4) return 0;
  const hn::FixedTag<float, 4> d4;
  const std::int64_t whole_k = k / 4 * 4;
  for (std::int64_t first = 0; first < whole_k; first += kCacheLine) {
    const std::int64_t end = std::min(whole_k, first + kCacheLine);
    for (std::int64_t lines = 0; lines < width; lines += 4) {
      const std::int64_t w = std::min(lines, width - 4);
      const float* line = from + w * width_stride;
      for (std::int64_t row = first; row < end; row += 4) {
        const auto r0 = hn::LoadU(d4, line + row), r1 = hn::LoadU(d4, line + width_stride + row);
        const auto r2 = hn::LoadU(d4, line + 2 * width_stride + row), r3 = hn::LoadU(d4, line + 3 * width_stride + row);
        const auto low01 = hn::InterleaveLower(d4, r0, r1), low23 = hn::InterleaveLower(d4, r2, r3);
        const auto high01 = hn::InterleaveUpper(d4, r0, r1), high23 = hn::InterleaveUpper(d4, r2, r3);
        float* out = to + row * to_stride + w;
        hn::StoreU(hn::ConcatLowerLower(d4, low23, low01), d4, out);
        hn::StoreU(hn::ConcatUpperUpper(d4, low23, low01), d4, out + to_stride);
        hn::StoreU(hn::ConcatLowerLower(d4, high23, high01), d4, out + 2 * to_stride);
        hn::StoreU(hn::ConcatUpperUpper(d4, high23, high01), d4, out + 3 * to_stride);
      }
    }
  }
  for (std::int64_t row = whole_k; row < k; ++row) {
    for (std::int64_t w = 0; w < width; ++w) to[row * to_stride + w] = from[w * width_stride + row];
  }
  return width;
}
#endif

void pack(const float* from, std::int64_t width_stride, std::int64_t k_stride, std::int64_t width, std::int64_t k,
          float* to, std::int64_t to_stride) {
  if (width_stride == 1) return pack_rows(from, k_stride, width, k, to, to_stride);
  std::int64_t w = 0;
#if HWY_TARGET != HWY_SCALAR
  if (k_stride == 1) w = pack_transposed(from, width_stride, width, k, to, to_stride);
#endif
  for (; w < width; ++w) {
    for (std::int64_t row = 0; row < k; ++row) to[row * to_stride + w] = from[w * width_stride + row * k_stride];
  }
}

const GemmF32Isa* isa() {
  static constexpr GemmF32Isa functions{kName, kRows, kColumns, kLanes, multiply, pack};
  return &functions;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(isa);

const GemmF32Isa& gemm_f32_isa() {
  return *HWY_DYNAMIC_DISPATCH(isa)();
}

}  // namespace tessera::backends::cpu
#endif
