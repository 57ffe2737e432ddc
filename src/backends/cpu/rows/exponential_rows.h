// Exponentials of rows of floats and their sum, for softmax and attention. Included once per instruction set, like
// math.h.
#if defined(TESSERA_BACKENDS_CPU_EXPONENTIAL_ROWS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_BACKENDS_CPU_EXPONENTIAL_ROWS_H
#undef TESSERA_BACKENDS_CPU_EXPONENTIAL_ROWS_H
#else
#define TESSERA_BACKENDS_CPU_EXPONENTIAL_ROWS_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "backends/cpu/element_wise/math.h"
#include "backends/cpu/rows/vector_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {

namespace rows {

// Returns the sum of e^(x - largest); if `keep_terms`, also writes the terms to y, which may be x.
template <bool keep_terms>
HWY_INLINE float exponentials(const float* x, float* y, std::int64_t count, V largest) {
  const D d;
  const std::int64_t lanes = lane_count();
  V sum = hn::Zero(d), other = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const V a = math::exp_of_nonpositive(d, hn::Sub(hn::LoadU(d, x + i), largest));
    const V b = math::exp_of_nonpositive(d, hn::Sub(hn::LoadU(d, x + i + lanes), largest));
    if constexpr (keep_terms) hn::StoreU(a, d, y + i), hn::StoreU(b, d, y + i + lanes);
    sum = hn::Add(sum, a);
    other = hn::Add(other, b);
  }
  for (; i < count; i += lanes) {
    const Mask part = hn::FirstN(d, static_cast<std::size_t>(count - i));
    const V e = math::exp_of_nonpositive(d, hn::Sub(hn::MaskedLoad(part, d, x + i), largest));
    if constexpr (keep_terms) hn::BlendedStore(e, part, d, y + i);
    sum = hn::Add(sum, hn::IfThenElse(part, e, hn::Zero(d)));
  }
  return join_lanes(Sum(), hn::Add(sum, other));
}

}  // namespace rows

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_BACKENDS_CPU_EXPONENTIAL_ROWS_H
