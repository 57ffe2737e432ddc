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

// Accumulators, two vectors of B and a broadcast fit the vector registers; pointers to the rows the others, nearly.
#if HWY_TARGET == HWY_SCALAR
constexpr int kRows = 3, kVectors = 4;
constexpr const char* kName = "scalar";
#elif HWY_TARGET == HWY_AVX3
constexpr int kRows = 12, kVectors = 2;
constexpr const char* kName = "avx512";
#else
constexpr int kRows = 6, kVectors = 2;
constexpr const char* kName = "avx2";
#endif
constexpr std::int64_t kColumns = kVectors * kLanes;

// NaN stays NaN: where one operand is NaN, x86 gives the second.
HWY_INLINE V clamp(V x, V low, V high) {
#if HWY_TARGET == HWY_SCALAR
  x = hn::IfThenElse(hn::Lt(x, low), low, x);
  return hn::IfThenElse(hn::Gt(x, high), high, x);
#else
  return hn::Min(high, hn::Max(low, x));
#endif
}

template <int rows, int vectors>
void multiply_tile(const IndirectProduct& product, const float* right, std::int64_t first_column) {
  const D d;
  V sum[rows][vectors];
#pragma GCC unroll 4
  for (int j = 0; j < vectors; ++j) {
    const V bias = hn::LoadU(d, product.bias + first_column + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) sum[i][j] = bias;
  }
  const float* const* left = product.left;
  for (std::int64_t s = product.segments; s > 0; --s, left += IndirectProduct::kMostRows) {
    const float* row[rows];
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) row[i] = left[i];
    for (std::int64_t k = 0; k < product.length; ++k, right += vectors * kLanes) {
      V b[vectors];
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) b[j] = hn::LoadU(d, right + j * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) {
        const V a = hn::Set(d, row[i][k]);
#pragma GCC unroll 4
        for (int j = 0; j < vectors; ++j) sum[i][j] = hn::MulAdd(a, b[j], sum[i][j]);
      }
    }
  }
  const V low = hn::Set(d, product.low), high = hn::Set(d, product.high);
  const std::int64_t columns = product.columns - first_column;
  float* c = product.c + first_column;
  const float* addend = product.addend == nullptr ? nullptr : product.addend + first_column;
  if (columns >= vectors * kLanes) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) {
        V value = sum[i][j];
        if (addend != nullptr) value = hn::Add(value, hn::LoadU(d, addend + i * product.ldc + j * kLanes));
        hn::StoreU(clamp(value, low, high), d, c + i * product.ldc + j * kLanes);
      }
    }
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      if (j * kLanes >= columns) continue;
      const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, columns - j * kLanes)));
      V value = sum[i][j];
      if (addend != nullptr) value = hn::Add(value, hn::MaskedLoad(mask, d, addend + i * product.ldc + j * kLanes));
      hn::BlendedStore(clamp(value, low, high), mask, d, c + i * product.ldc + j * kLanes);
    }
  }
}

template <int rows>
void multiply_rows(const IndirectProduct& product) {
  const std::int64_t depth = product.segments * product.length;
  const float* right = product.right;
  for (std::int64_t column = 0; column < product.columns; column += kColumns, right += depth * kColumns) {
    const std::int64_t vectors = std::min<std::int64_t>(kVectors, (product.columns - column + kLanes - 1) / kLanes);
    switch (vectors) {
      case 1:
        multiply_tile<rows, 1>(product, right, column);
        break;
#if HWY_TARGET == HWY_SCALAR
      case 2:
        multiply_tile<rows, 2>(product, right, column);
        break;
      case 3:
        multiply_tile<rows, 3>(product, right, column);
        break;
#endif
      default:
        multiply_tile<rows, kVectors>(product, right, column);
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
