// Rows of float32 rounded to bfloat16 and widened again, for Highway kernels.
//
// Included once per instruction set, after <hwy/highway.h>, inside the file that hwy/foreach_target.h repeats.
#if defined(TESSERA_BACKENDS_CPU_VECTOR_BF16_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_BACKENDS_CPU_VECTOR_BF16_H
#undef TESSERA_BACKENDS_CPU_VECTOR_BF16_H
#else
#define TESSERA_BACKENDS_CPU_VECTOR_BF16_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "base/half.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE::bf16 {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// y = x rounded to the nearest bfloat16, ties to even; NaN stays NaN.
inline void round_row(const float* x, std::uint16_t* y, std::int64_t count) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  constexpr std::int64_t lanes = HWY_LANES(float);
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::LoadU(d, x + i);
    const auto bits = hn::BitCast(du, value);
    const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(even, hn::Set(du, 0x7FFFu)));
    const auto kept =
        hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), hn::Or(bits, hn::Set(du, 0x400000u)), rounded);
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::ShiftRight<16>(kept))), d16, y + i);
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
