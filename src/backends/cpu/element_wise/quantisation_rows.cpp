#include "backends/cpu/element_wise/quantisation_rows.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/element_wise/quantisation_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

#if HWY_NATIVE_FMA
// quantise() without division, which takes ten times as long as multiplication, and with the same bits: the quotient by
// the reciprocal, corrected twice by its remainder, is rounded as division rounds (Markstein, "Computation of
// elementary functions on the IBM RISC System/6000 processor", 1990), as long as all values are normal numbers.
// Quotients beyond kMost saturate in any case.
struct MultiplyingQuantiser {
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;
  static constexpr float kMost = 65536, kLeastScale = 0x1p-90f, kMostScale = 0x1p90f;
  static constexpr float kRounder =
      0x1.8p23f;  // numbers of this size have no fraction: adding it rounds, and leaves the integer in the low bits
  V scale, reciprocal, bound;
  VI zero;
  MultiplyingQuantiser(float s, float z)
      : scale(hn::Set(D(), s)),
        reciprocal(hn::Set(D(), 1.0f / s)),
        bound(hn::Set(D(), kMost * s)),
        zero(hn::Sub(hn::Set(DI(), static_cast<std::int32_t>(z)), hn::BitCast(DI(), hn::Set(D(), kRounder)))) {}
  static bool takes(float scale) { return scale >= kLeastScale && scale <= kMostScale; }

  // The rounded quotient, before saturation.
  HWY_INLINE VI quotient(V given) const {
    const V x = hn::Min(hn::Max(given, hn::Neg(bound)), bound);
    V q = hn::Mul(x, reciprocal);
    q = hn::MulAdd(hn::NegMulAdd(q, scale, x), reciprocal, q);
    q = hn::MulAdd(hn::NegMulAdd(q, scale, x), reciprocal, q);
    return hn::Add(hn::BitCast(DI(), hn::Add(hn::IfThenZeroElse(hn::IsNaN(given), q), hn::Set(D(), kRounder))), zero);
  }
};

template <typename Q>
void quantise_row_by_multiplying(const float* x, Q* y, std::int64_t count, const MultiplyingQuantiser& given) {
  const D d;
  const hn::Rebind<Q, D> dq;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const MultiplyingQuantiser quantiser = given;  // a copy: stores of bytes may alias the original
  std::int64_t i = 0;
#if HWY_ARCH_X86
  // Packing two vectors works within blocks of 16 bytes: the packed bytes alternate between four of one vector and four
  // of the other.
  const hn::Repartition<std::int16_t, D> d16;
  const hn::Rebind<Q, decltype(d16)> d8;
  const hn::Repartition<std::int32_t, decltype(d8)> d32;
  HWY_ALIGN std::int32_t in_order[hn::MaxLanes(d32)];
  const auto half = static_cast<std::int32_t>(hn::Lanes(d32) / 2);
  for (std::int32_t k = 0; k < half; ++k) {
    in_order[k] = 2 * k;
    in_order[half + k] = 2 * k + 1;
  }
  const auto order = hn::SetTableIndices(d32, in_order);
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto words = hn::ReorderDemote2To(d16, quantiser.quotient(hn::LoadU(d, x + i)),
                                            quantiser.quotient(hn::LoadU(d, x + i + lanes)));
    hn::StoreU(hn::BitCast(d8, hn::TableLookupLanes(hn::BitCast(d32, hn::DemoteTo(d8, words)), order)), d8, y + i);
  }
#endif
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::DemoteTo(dq, quantiser.quotient(hn::LoadU(d, x + i))), dq, y + i);
  if (i == count) return;
  HWY_ALIGN Q values[hn::MaxLanes(d)];
  hn::StoreU(hn::DemoteTo(
                 dq, quantiser.quotient(hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count - i)), d, x + i))),
             dq, values);
  for (std::int64_t k = 0; i < count; ++i, ++k) y[i] = values[k];
}
#endif

// saturate(round(x / scale) + zero); NaN becomes zero.
template <typename Q>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> quantise(V x, V scale, V zero) {
  const V low = hn::Set(D(), static_cast<float>(std::numeric_limits<Q>::min()));
  const V high = hn::Set(D(), static_cast<float>(std::numeric_limits<Q>::max()));
  const V q = hn::Add(hn::Round(hn::Div(x, scale)), zero);
  const V number = hn::IfThenElse(hn::IsNaN(q), zero, q);
  return hn::ConvertTo(hn::RebindToSigned<D>(), hn::Min(hn::Max(number, low), high));
}

template <typename Q>
void quantise_row(const float* x, Q* y, std::int64_t count, float scale, float zero) {
#if HWY_NATIVE_FMA
  if (MultiplyingQuantiser::takes(scale))
    return quantise_row_by_multiplying(x, y, count, MultiplyingQuantiser(scale, zero));
#endif
  const D d;
  const hn::Rebind<Q, D> dq;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V s = hn::Set(d, scale), z = hn::Set(d, zero);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::DemoteTo(dq, quantise<Q>(hn::LoadU(d, x + i), s, z)), dq, y + i);
  }
  if (i == count) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(count - i));
  HWY_ALIGN std::int32_t values[hn::MaxLanes(d)];
  hn::Store(quantise<Q>(hn::MaskedLoad(rest, d, x + i), s, z), hn::RebindToSigned<D>(), values);
  for (std::int64_t k = 0; i < count; ++i, ++k) y[i] = static_cast<Q>(values[k]);
}

template <typename Q>
void dequantise_row(const Q* x, float* y, std::int64_t count, float scale, float zero) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const hn::Rebind<Q, D> dq;
  const hn::RebindToSigned<D> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V s = hn::Set(d, scale), z = hn::Set(d, zero);
  for (; i + lanes <= count; i += lanes) {
    const V value = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(dq, x + i)));
    hn::StoreU(hn::Mul(hn::Sub(value, z), s), d, y + i);
  }
#endif
  for (; i < count; ++i) y[i] = (static_cast<float>(x[i]) - zero) * scale;
}

// Ignores NaN.
Extremes extremes(const float* x, std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V low = hn::Zero(d), high = hn::Zero(d);
  const auto take = [&](V value) HWY_ATTR {
    low = hn::IfThenElse(hn::Lt(value, low), value, low);
    high = hn::IfThenElse(hn::Gt(value, high), value, high);
  };
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) take(hn::LoadU(d, x + i));
  if (i < count) take(hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count - i)), d, x + i));
  HWY_ALIGN float lows[hn::MaxLanes(d)], highs[hn::MaxLanes(d)];
  hn::Store(low, d, lows);
  hn::Store(high, d, highs);
  return {*std::min_element(lows, lows + lanes), *std::max_element(highs, highs + lanes)};
}

}  // namespace

QuantisationRows best_quantisation_rows() {
  return {quantise_row<std::uint8_t>, quantise_row<std::int8_t>, dequantise_row<std::uint8_t>,
          dequantise_row<std::int8_t>, extremes};
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(best_quantisation_rows);

QuantisationRows quantisation_rows() {
  return HWY_DYNAMIC_DISPATCH(best_quantisation_rows)();
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
