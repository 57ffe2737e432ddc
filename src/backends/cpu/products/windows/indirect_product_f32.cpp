#include "backends/cpu/products/windows/indirect_product_f32.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/products/windows/indirect_product_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);

// Tile sizes: accumulators, vectors of B for kTogether numbers of a row and a broadcast fit the vector registers.
// Pointers to twelve rows do not quite fit the general ones: kTogether halves how often they are reloaded.
#if HWY_TARGET == HWY_SCALAR
constexpr int kRows = 3, kVectors = 4, kTogether = 1;
constexpr const char* kName = "scalar";
#elif HWY_TARGET == HWY_AVX3
constexpr int kRows = 12, kVectors = 2, kTogether = 2;
constexpr const char* kName = "avx512";
#else
constexpr int kRows = 6, kVectors = 2, kTogether = 1;
constexpr const char* kName = "avx2";
#endif
constexpr std::int64_t kColumns = kVectors * kLanes;

// Whether the last columns may use half a vector if they fill no more: with 512 bits, of which some processors compute
// half at a time, this halves the work.
#if HWY_TARGET == HWY_AVX3
constexpr bool kHasHalves = true;
using DHalf = hn::Half<D>;
#else
constexpr bool kHasHalves = false;
using DHalf = D;
#endif
using VHalf = hn::Vec<DHalf>;

// Applies the epilogue to a vector of sums, of `column` and the columns behind it.
template <class DX>
struct Epilogue {
  using VX = hn::Vec<DX>;

  explicit HWY_INLINE Epilogue(const IndirectProduct& product, std::int64_t column)
      : columns(product.columns - column),
        ldc(product.ldc),
        c(product.c + column),
        addend(product.addend == nullptr ? nullptr : product.addend + column),
        low(hn::Set(d, product.low)),
        high(hn::Set(d, product.high)) {}

  // NaN stays NaN: if one operand is NaN, x86's min and max return the second.
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
HWY_INLINE void add_products(const float* const (&row)[rows], std::int64_t k, const float* right,
                             V (&sum)[rows][std::max(vectors, 1)], VHalf (&half_sum)[rows]) {
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
      const V a = hn::Set(d, row[i][k + s]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[i][j] = hn::MulAdd(a, b[s][j], sum[i][j]);
      if constexpr (half) half_sum[i] = hn::MulAdd(hn::Set(d_half, row[i][k + s]), b_half[s], half_sum[i]);
    }
  }
}

// Multiplies by whole vectors of columns, the last one a half vector if `half`. `fetches`: product.next is not null.
template <int rows, int vectors, bool half, bool fetches = false>
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
  const float* next = fetches ? product.next + first_column / kColumns * product.segments * product.length *
                                                   IndirectProduct::kNextFloats
                              : nullptr;
  const float* const* left = product.left;
  for (std::int64_t s = product.segments; s > 0; --s, left += IndirectProduct::kMostRows) {
    if (*left == nullptr) {
      right += product.length * kWidth;
      if constexpr (fetches) next += product.length * IndirectProduct::kNextFloats;
      continue;
    }
    const float* row[rows];
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) row[i] = left[i];
    constexpr int kDepth = vectors + (half ? 1 : 0) == 1 ? 2 * kTogether : kTogether;
    std::int64_t k = 0;
    for (; k + kDepth <= product.length; k += kDepth, right += kDepth * kWidth) {
      add_products<rows, vectors, half, kDepth>(row, k, right, sum, half_sum);
      if constexpr (fetches) {
        __builtin_prefetch(next, 0, 2);
        next += kDepth * IndirectProduct::kNextFloats;
      }
    }
    for (; k < product.length; ++k, right += kWidth) add_products<rows, vectors, half, 1>(row, k, right, sum, half_sum);
  }
  const Epilogue<D> epilogue(product, first_column);
  const bool whole = epilogue.columns >= vectors * kLanes;
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      whole ? epilogue.template store<true>(sum[i][j], i, j * kLanes)
            : epilogue.template store<false>(sum[i][j], i, j * kLanes);
  }
  if constexpr (half) {
    const Epilogue<DHalf> half_epilogue(product, first_column + vectors * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) half_epilogue.template store<false>(half_sum[i], i, 0);
  }
}

template <int rows>
void multiply_rows(const IndirectProduct& product) {
  const std::int64_t depth = product.segments * product.length;
  const float* right = product.right;
  for (std::int64_t column = 0; column < product.columns; column += kColumns, right += depth * kColumns) {
    const std::int64_t columns = std::min(kColumns, product.columns - column), last = columns % kLanes;
    const bool half = kHasHalves && last > 0 && last <= kLanes / 2;
    const std::int64_t vectors = half ? columns / kLanes : (columns + kLanes - 1) / kLanes;
    if constexpr (kHasHalves) {
      if (half) {
        vectors == 0 ? multiply_tile<rows, 0, true>(product, right, column)
                     : multiply_tile<rows, 1, true>(product, right, column);
        continue;
      }
    }
    switch (vectors) {
      case 1:
        multiply_tile<rows, 1, false>(product, right, column);
        break;
#if HWY_TARGET == HWY_SCALAR
      case 2:
        multiply_tile<rows, 2, false>(product, right, column);
        break;
      case 3:
        multiply_tile<rows, 3, false>(product, right, column);
        break;
#endif
      default:
        if (kTogether > 1 && product.next != nullptr)
          multiply_tile<rows, kVectors, false, (kTogether > 1)>(product, right, column);
        else multiply_tile<rows, kVectors, false>(product, right, column);
        break;
    }
  }
}

template <int rows>
void multiply_any(const IndirectProduct& product) {
  if (product.rows == rows) return multiply_rows<rows>(product);
  if constexpr (rows > 1) multiply_any<rows - 1>(product);
}

}  // namespace

const IndirectProductIsa* indirect_isa() {
  static constexpr IndirectProductIsa functions{kName, kRows, kColumns, kLanes, multiply_any<kRows>};
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
