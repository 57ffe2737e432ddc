// Conversions of float32 rows to bfloat16 and back, for Highway kernels. Included once per instruction set, after
// <hwy/highway.h>, inside the file that hwy/foreach_target.h repeats.
#if defined(TESSERA_BACKENDS_CPU_VECTOR_BF16_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_BACKENDS_CPU_VECTOR_BF16_H
#undef TESSERA_BACKENDS_CPU_VECTOR_BF16_H
#else
#define TESSERA_BACKENDS_CPU_VECTOR_BF16_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "base/numbers/half.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE::bf16 {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// x rounded to the nearest bfloat16, ties to even, in the upper half of each lane; the lower half is not cleared. NaN
// stays NaN.
template <class V>
HWY_INLINE auto rounded_bits(V x) {
  const hn::RebindToUnsigned<hn::DFromV<V>> du;
  const auto bits = hn::BitCast(du, x);
  const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(even, hn::Set(du, 0x7FFFu)));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), hn::Or(bits, hn::Set(du, 0x400000u)), rounded);
}
#endif

// y[2 i] = even[i], y[2 i + 1] = odd[i], rounded as by round_row.
inline void round_pairs(const float* even, const float* odd, std::uint16_t* y, std::int64_t count) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  constexpr std::int64_t lanes = HWY_LANES(float);
  for (; i + lanes <= count; i += lanes) {
    const auto low = hn::ShiftRight<16>(rounded_bits(hn::LoadU(d, even + i)));
    const auto high = hn::And(rounded_bits(hn::LoadU(d, odd + i)), hn::Set(du, 0xFFFF0000u));
    hn::StoreU(hn::Or(low, high), du, reinterpret_cast<std::uint32_t*>(y + 2 * i));
  }
#endif
  for (; i < count; ++i) {
    y[2 * i] = base::to_bf16(even[i]).bits;
    y[2 * i + 1] = base::to_bf16(odd[i]).bits;
  }
}

// y = x rounded to the nearest bfloat16, ties to even; NaN stays NaN.
inline void round_row(const float* x, std::uint16_t* y, std::int64_t count) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  constexpr std::int64_t lanes = HWY_LANES(float);
  for (; i + lanes <= count; i += lanes) {
    const auto rounded = rounded_bits(hn::LoadU(d, x + i));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::ShiftRight<16>(rounded))), d16, y + i);
  }
#endif
  for (; i < count; ++i) y[i] = base::to_bf16(x[i]).bits;
}

// y = x, exactly.
inline void widen_row(const std::uint16_t* x, float* y, std::int64_t count) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  constexpr std::int64_t lanes = HWY_LANES(float);
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, x + i)))), d, y + i);
#endif
  for (; i < count; ++i) y[i] = base::to_float(bf16_t{x[i]});
}

}  // namespace
}  // namespace tessera::backends::cpu::HWY_NAMESPACE::bf16
HWY_AFTER_NAMESPACE();

#endif
