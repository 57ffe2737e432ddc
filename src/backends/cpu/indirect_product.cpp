#include "backends/cpu/indirect_product.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/indirect_product.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);

// Accumulators, vectors of B and a broadcast of A fit the vector registers. With AVX-512 loads are scarcer than these: half of the rows times
// four vectors take fewer (gemm_f32_isa.cpp), and the pointers to them fit the other registers.
#if HWY_TARGET == HWY_SCALAR
constexpr int kRows = 3, kVectors = 4;
constexpr const char* kName = "scalar";
#elif HWY_TARGET == HWY_AVX3
constexpr int kRows = 12, kVectors = 4;
constexpr const char* kName = "avx512";
#else
constexpr int kRows = 6, kVectors = 2;
constexpr const char* kName = "avx2";
#endif
constexpr std::int64_t kColumns = kVectors * kLanes;
constexpr bool kHalvesRows = HWY_TARGET == HWY_AVX3;
// Rows of a tile of so many vectors: those whose sums fit the registers.
template <int vectors>
constexpr int kTileRows = kHalvesRows && vectors > 2 ? kRows / 2 : kRows;
// Numbers of a row at a time: pointers to many rows do not quite fit the registers, and are fetched less often so.
template <int vectors>
constexpr int kTogether = !kHalvesRows ? (vectors == 1 ? 2 : 1) : vectors == 1 ? 4 : vectors == 2 ? 2 : 1;

// Where the last columns fill no more than half a vector: with 512 bits, of which some processors compute half at a time, half the work.
#if HWY_TARGET == HWY_AVX3
constexpr bool kHasHalves = true;
using DHalf = hn::Half<D>;
#else
constexpr bool kHasHalves = false;
using DHalf = D;
#endif
using VHalf = hn::Vec<DHalf>;

template <class DX, class VX>
HWY_INLINE VHalf lower_half(DX d, VX x) {
  if constexpr (kHasHalves) return hn::LowerHalf(d, x);
  else return x;
}

// What happens to a vector of sums, of `column` and those behind it.
template <class DX>
struct Epilogue {
  using VX = hn::Vec<DX>;

  explicit HWY_INLINE Epilogue(const IndirectProduct& product, std::int64_t column)
      : columns(product.columns - column), ldc(product.ldc), c(product.c + column), addend(product.addend == nullptr ? nullptr : product.addend + column), low(hn::Set(d, product.low)), high(hn::Set(d, product.high)) {}

  // NaN stays NaN: where one operand is NaN, x86 gives the second.
  HWY_INLINE VX clamp(VX x) const {
#if HWY_TARGET == HWY_SCALAR
    x = hn::IfThenElse(hn::Lt(x, low), low, x);
    return hn::IfThenElse(hn::Gt(x, high), high, x);
#else
    return hn::Min(high, hn::Max(low, x));
#endif
  }
  template <bool whole>
  HWY_INLINE void store(VX sum, std::int64_t row, std::int64_t column) const {
    constexpr std::int64_t lanes = hn::MaxLanes(DX());
    const std::int64_t offset = row * ldc + column;
    if (whole) {
      if (addend != nullptr) sum = hn::Add(sum, hn::LoadU(d, addend + offset));
      return hn::StoreU(clamp(sum), d, c + offset);
    }
    if (column >= columns) return;
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, columns - column)));
    if (addend != nullptr) sum = hn::Add(sum, hn::MaskedLoad(mask, d, addend + offset));
    hn::BlendedStore(clamp(sum), mask, d, c + offset);
  }

  DX d;
  std::int64_t columns, ldc;
  float* c;
  const float* addend;
  VX low, high;
};

// sum += A B over the numbers [k, k + depth) of each row.
template <int rows, int vectors, bool half, int depth>
HWY_INLINE void add_products(const float* const (&row)[rows], std::int64_t k, const float* right, V (&sum)[rows][std::max(vectors, 1)], VHalf (&half_sum)[rows]) {
  const D d;
  const DHalf d_half;
  constexpr std::int64_t kWidth = (vectors + (half ? 1 : 0)) * kLanes;
  V b[depth][std::max(vectors, 1)];
  VHalf b_half[depth];
#pragma GCC unroll 4
  for (int s = 0; s < depth; ++s) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) b[s][j] = hn::LoadU(d, right + s * kWidth + j * kLanes);
    if constexpr (half) b_half[s] = hn::LoadU(d_half, right + s * kWidth + vectors * kLanes);
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int s = 0; s < depth; ++s) {
      if constexpr (half && vectors == 0) {
        half_sum[i] = hn::MulAdd(hn::Set(d_half, row[i][k + s]), b_half[s], half_sum[i]);
        continue;
      }
      const V a = hn::Set(d, row[i][k + s]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[i][j] = hn::MulAdd(a, b[s][j], sum[i][j]);
      if constexpr (half) half_sum[i] = hn::MulAdd(lower_half(d_half, a), b_half[s], half_sum[i]);
    }
  }
}

// Whole vectors of columns, and half a one where `half`.
template <int rows, int vectors, bool half>
void multiply_tile(const IndirectProduct& product, const float* right, std::int64_t first_column) {
  const D d;
  const DHalf d_half;
  constexpr std::int64_t kWidth = (vectors + (half ? 1 : 0)) * kLanes;
  V sum[rows][std::max(vectors, 1)];
  VHalf half_sum[rows];
#pragma GCC unroll 4
  for (int j = 0; j < vectors; ++j) {
    const V bias = hn::LoadU(d, product.bias + first_column + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) sum[i][j] = bias;
  }
  if constexpr (half) {
    const VHalf bias = hn::LoadU(d_half, product.bias + first_column + vectors * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) half_sum[i] = bias;
  }
  const float* const* left = product.left;
  for (std::int64_t s = product.segments; s > 0; --s, left += IndirectProduct::kMostRows) {
    const float* row[rows];
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) row[i] = left[i];
    constexpr int kDepth = kTogether<vectors + (half ? 1 : 0)>;
    std::int64_t k = 0;
    for (; k + kDepth <= product.length; k += kDepth, right += kDepth * kWidth) add_products<rows, vectors, half, kDepth>(row, k, right, sum, half_sum);
    for (; k < product.length; ++k, right += kWidth) add_products<rows, vectors, half, 1>(row, k, right, sum, half_sum);
  }
  const Epilogue<D> epilogue(product, first_column);
  const bool whole = epilogue.columns >= vectors * kLanes;
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) whole ? epilogue.template store<true>(sum[i][j], i, j * kLanes) : epilogue.template store<false>(sum[i][j], i, j * kLanes);
  }
  if constexpr (half) {
    const Epilogue<DHalf> half_epilogue(product, first_column + vectors * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) half_epilogue.template store<false>(half_sum[i], i, 0);
  }
}

// A panel of columns: its tile, or two of half the rows.
template <int rows, int vectors, bool half>
HWY_INLINE void multiply_panel(const IndirectProduct& product, const float* right, std::int64_t column) {
  if constexpr (rows <= kTileRows<vectors + (half ? 1 : 0)>) {
    multiply_tile<rows, vectors, half>(product, right, column);
  } else {
    constexpr int first = (rows + 1) / 2;
    multiply_tile<first, vectors, half>(product, right, column);
    IndirectProduct rest = product;
    rest.left += first;
    rest.c += first * product.ldc;
    if (rest.addend != nullptr) rest.addend += first * product.ldc;
    multiply_tile<rows / 2, vectors, half>(rest, right, column);
  }
}

// Of a panel with so many whole vectors.
template <int rows, bool half, int vectors>
HWY_INLINE void multiply_vectors(const IndirectProduct& product, const float* right, std::int64_t column, std::int64_t whole) {
  if constexpr (vectors + (half ? 1 : 0) > 0) {
    if (whole == vectors) return multiply_panel<rows, vectors, half>(product, right, column);
  }
  if constexpr (vectors > 0) multiply_vectors<rows, half, vectors - 1>(product, right, column, whole);
}

template <int rows>
void multiply_rows(const IndirectProduct& product) {
  const std::int64_t depth = product.segments * product.length;
  const std::int64_t panel = kHalvesRows && product.panel_columns > 0 ? product.panel_columns : kColumns;
  const float* right = product.right;
  for (std::int64_t column = 0; column < product.columns; column += panel, right += depth * panel) {
    const std::int64_t columns = std::min(panel, product.columns - column), last = columns % kLanes;
    if (kHasHalves && last > 0 && last <= kLanes / 2) {
      if constexpr (kHasHalves) multiply_vectors<rows, true, kVectors - 1>(product, right, column, columns / kLanes);
    } else {
      multiply_vectors<rows, false, kVectors>(product, right, column, (columns + kLanes - 1) / kLanes);
    }
  }
}

template <int rows>
void multiply_any(const IndirectProduct& product) {
  if (product.rows == rows) return multiply_rows<rows>(product);
  if constexpr (rows > 1) multiply_any<rows - 1>(product);
}

}  // namespace

std::int64_t panel_columns(std::int64_t depth) {
  constexpr std::int64_t kCachedFloats = 128 * 1024;  // well within a second-level cache
  return kHalvesRows && depth > kCachedFloats / kColumns ? kColumns / 2 : kColumns;
}

const IndirectProductIsa* indirect_isa() {
  static constexpr IndirectProductIsa functions{kName, kRows, kColumns, kLanes, multiply_any<kRows>, panel_columns};
  return &functions;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(indirect_isa);

const IndirectProductIsa& indirect_product_isa() {
  return *HWY_DYNAMIC_DISPATCH(indirect_isa)();
}

}  // namespace tessera::backends::cpu
#endif
