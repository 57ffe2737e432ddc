// Sums of squares of floats in double precision. Included once per instruction set.
#if defined(TESSERA_BACKENDS_CPU_SQUARES_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_BACKENDS_CPU_SQUARES_H
#undef TESSERA_BACKENDS_CPU_SQUARES_H
#else
#define TESSERA_BACKENDS_CPU_SQUARES_H
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {

namespace squares {

namespace hn = hwy::HWY_NAMESPACE;

// Σ x² over all x that `at(i, mask)` returns: vectors of floats, with as many lanes as a vector has doubles, from
// element i on, zero where the mask is not set. The square of a finite float does not overflow a double.
template <class At>
HWY_INLINE double sum(std::int64_t count, const At& at) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto wide = [&](std::int64_t i, std::int64_t left) HWY_ATTR {
    return hn::PromoteTo(d, at(i, hn::FirstN(narrow, static_cast<std::size_t>(left))));
  };
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto a = wide(i, lanes), b = wide(i + lanes, lanes), c = wide(i + 2 * lanes, lanes),
               e = wide(i + 3 * lanes, lanes);
    s0 = hn::MulAdd(a, a, s0);
    s1 = hn::MulAdd(b, b, s1);
    s2 = hn::MulAdd(c, c, s2);
    s3 = hn::MulAdd(e, e, s3);
  }
  for (; i < count; i += lanes) {
    const auto a = wide(i, count - i < lanes ? count - i : lanes);
    s0 = hn::MulAdd(a, a, s0);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

HWY_INLINE double sum(const float* x, std::int64_t count) {
  const hn::Rebind<float, hn::ScalableTag<double>> narrow;
  return sum(count, [&](std::int64_t i, auto mask) HWY_ATTR { return hn::MaskedLoad(mask, narrow, x + i); });
}

}  // namespace squares

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_BACKENDS_CPU_SQUARES_H
