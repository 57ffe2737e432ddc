#include "backends/cpu/indirect_product_bf16.h"

#include <algorithm>

#include "backends/cpu/simd.h"
#include "base/half.h"

#ifndef TESSERA_BACKENDS_CPU_INDIRECT_PRODUCT_BF16
#define TESSERA_BACKENDS_CPU_INDIRECT_PRODUCT_BF16
namespace tessera::backends::cpu {

struct Bf16Functions {
  MultiplyBf16 multiply;
  void (*round)(const float*, std::uint16_t*, std::int64_t);
  void (*widen)(const std::uint16_t*, float*, std::int64_t);
};

}  // namespace tessera::backends::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/indirect_product_bf16.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Product = IndirectProductBf16;
using D = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<D>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);
constexpr int kRows = 4, kVectors = HWY_TARGET == HWY_SCALAR ? 4 : 2;

void round_row(const float* x, std::uint16_t* y, std::int64_t count) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const DU du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint16_t, D> d16;
  for (; i + kLanes <= count; i += kLanes) {
    const V value = hn::LoadU(d, x + i);
    const auto bits = hn::BitCast(du, value);
    const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(even, hn::Set(du, 0x7FFFu)));
    const auto kept = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), hn::Or(bits, hn::Set(du, 0x400000u)), rounded);
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::ShiftRight<16>(kept))), d16, y + i);
  }
#endif
  for (; i < count; ++i) y[i] = base::to_bf16(x[i]).bits;
}

void widen_row(const std::uint16_t* x, float* y, std::int64_t count) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const DU du;
  const hn::Rebind<std::uint16_t, D> d16;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, x + i)))), d, y + i);
#endif
  for (; i < count; ++i) y[i] = base::to_float(bf16_t{x[i]});
}

// Some rows times some vectors of a panel that is `width` wide; `right` points at the first of them.
template <int rows, int vectors>
void multiply_tile(const Product& product, std::int64_t row, const std::uint16_t* right, std::int64_t width, std::int64_t column) {
  const D d;
  const DU du;
  V sum[rows][vectors];
#pragma GCC unroll 4
  for (int j = 0; j < vectors; ++j) {
    const V bias = hn::LoadU(d, product.bias + column + j * kLanes);
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) sum[i][j] = bias;
  }
  for (std::int64_t s = 0; s < product.segments; ++s) {
    for (std::int64_t group = 0; group < product.groups; ++group, right += width * Product::kGroup) {
      V even[vectors], odd[vectors];
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) {
        const auto pair = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(right) + j * kLanes);
        even[j] = hn::BitCast(d, hn::ShiftLeft<16>(pair));
        odd[j] = hn::BitCast(d, hn::And(pair, hn::Set(du, 0xFFFF0000u)));
      }
#pragma GCC unroll 4
      for (int i = 0; i < rows; ++i) {
        const std::uint16_t* a = product.left[s * Product::kMostRows + row + i] + group * Product::kGroup;
        const V a0 = hn::Set(d, base::to_float(bf16_t{a[0]})), a1 = hn::Set(d, base::to_float(bf16_t{a[1]}));
#pragma GCC unroll 4
        for (int j = 0; j < vectors; ++j) sum[i][j] = hn::MulAdd(a0, even[j], hn::MulAdd(a1, odd[j], sum[i][j]));
      }
    }
  }
  const V low = hn::Set(d, product.low), high = hn::Set(d, product.high);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < vectors; ++j) {
      const std::int64_t first = column + j * kLanes, count = std::min(kLanes, product.columns - first);
      if (count <= 0) continue;
      HWY_ALIGN float lanes[hn::MaxLanes(d)] = {};
      V value = sum[i][j];
      const std::int64_t at = (row + i) * product.ldc + first;
      if (product.addend != nullptr) {
        if (product.rounded_addend) widen_row(static_cast<const std::uint16_t*>(product.addend) + at, lanes, count);
        else std::copy_n(static_cast<const float*>(product.addend) + at, count, lanes);
        value = hn::Add(value, hn::Load(d, lanes));
      }
      value = hn::IfThenElse(hn::Lt(value, low), low, value);  // NaN stays
      value = hn::IfThenElse(hn::Gt(value, high), high, value);
      hn::Store(value, d, lanes);
      if (product.rounded_c) round_row(lanes, static_cast<std::uint16_t*>(product.c) + at, count);
      else std::copy_n(lanes, count, static_cast<float*>(product.c) + at);
    }
  }
}

template <int vectors>
void multiply_rows(const Product& product, const std::uint16_t* right, std::int64_t width, std::int64_t column) {
  std::int64_t row = 0;
  for (; row + kRows <= product.rows; row += kRows) multiply_tile<kRows, vectors>(product, row, right, width, column);
  for (; row < product.rows; ++row) multiply_tile<1, vectors>(product, row, right, width, column);
}

void multiply_widened(const Product& product) {
  const std::uint16_t* right = product.right;
  for (std::int64_t column = 0; column < product.columns; column += Product::kColumns) {
    const std::int64_t left_over = std::min(Product::kColumns, product.columns - column), width = (left_over + Product::kLanes - 1) / Product::kLanes * Product::kLanes;
    std::int64_t lane = 0;
    for (; lane + kVectors * kLanes <= width; lane += kVectors * kLanes) multiply_rows<kVectors>(product, right + lane * Product::kGroup, width, column + lane);
    // The last panel may be one vector wide.
    for (; lane < width; lane += kLanes) multiply_rows<1>(product, right + lane * Product::kGroup, width, column + lane);
    right += product.segments * product.groups * width * Product::kGroup;
  }
}

}  // namespace

Bf16Functions bf16_functions() { return {multiply_widened, round_row, widen_row}; }

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(bf16_functions);

MultiplyBf16 multiply_bf16() {
#if defined(__x86_64__)
  if (active_bf16()) return multiply_bf16_avx512;
#endif
  return HWY_DYNAMIC_DISPATCH(bf16_functions)().multiply;
}

void to_bf16_row(const float* x, std::uint16_t* y, std::int64_t count) { HWY_DYNAMIC_DISPATCH(bf16_functions)().round(x, y, count); }
void from_bf16_row(const std::uint16_t* x, float* y, std::int64_t count) { HWY_DYNAMIC_DISPATCH(bf16_functions)().widen(x, y, count); }

}  // namespace tessera::backends::cpu
#endif
