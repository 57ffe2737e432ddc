// Computes with float32 operands in double lanes. Included once per instruction set, like element_wise/math.h.
#if defined(TESSERA_BACKENDS_CPU_DOUBLE_LANES_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_BACKENDS_CPU_DOUBLE_LANES_H
#undef TESSERA_BACKENDS_CPU_DOUBLE_LANES_H
#else
#define TESSERA_BACKENDS_CPU_DOUBLE_LANES_H
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE::wide {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
using Narrow = hn::Rebind<float, D>;  // a vector of as many floats

HWY_INLINE std::int64_t lane_count() {
  return static_cast<std::int64_t>(hn::Lanes(D()));
}
HWY_INLINE V set(double value) {
  return hn::Set(D(), value);
}

// Loads lanes of floats as doubles, or of doubles unchanged. With a count, lanes behind the first `count` are zero.
HWY_INLINE V load(const float* x) {
  return hn::PromoteTo(D(), hn::LoadU(Narrow(), x));
}
HWY_INLINE V load(const double* x) {
  return hn::LoadU(D(), x);
}
HWY_INLINE V load_first(const float* x, std::int64_t count) {
  return hn::PromoteTo(D(), hn::MaskedLoad(hn::FirstN(Narrow(), static_cast<std::size_t>(count)), Narrow(), x));
}
HWY_INLINE V load_first(const double* x, std::int64_t count) {
  return hn::MaskedLoad(hn::FirstN(D(), static_cast<std::size_t>(count)), D(), x);
}

// Rounds to floats, with infinities for values that are too large: the scalar set's own conversion would give the
// largest float.
HWY_INLINE hn::Vec<Narrow> narrow(V value) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(Narrow(), static_cast<float>(hn::GetLane(value)));
#else
  return hn::DemoteTo(Narrow(), value);
#endif
}

// Calls body(i, load, store) for each vector of `count` elements, which begins at element i, as for_each_vector does:
// load returns double lanes from floats or doubles, store rounds to floats. Behind the last element zeros are loaded.
template <class Body>
HWY_INLINE void for_each(std::int64_t count, const Body& body) {
  const std::int64_t lanes = lane_count();
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    body(
        i, [](const auto* x) HWY_ATTR { return load(x); },
        [](V value, float* y) HWY_ATTR { hn::StoreU(narrow(value), Narrow(), y); });
  }
  if (i == count) return;
  const std::int64_t rest = count - i;
  body(
      i, [rest](const auto* x) HWY_ATTR { return load_first(x, rest); },
      [rest](V value, float* y) HWY_ATTR {
        const auto mask = hn::FirstN(Narrow(), static_cast<std::size_t>(rest));
        hn::BlendedStore(narrow(value), mask, Narrow(), y);
      });
}

HWY_INLINE double sum_of(V value) {
  return hn::GetLane(hn::SumOfLanes(D(), value));
}

// c0 + c1 x + c2 x² + …, by Horner's rule.
HWY_INLINE V taylor(V, double c0) {
  return set(c0);
}
template <class... Coefficients>
HWY_INLINE V taylor(V x, double c0, Coefficients... higher) {
  return hn::MulAdd(taylor(x, higher...), x, set(c0));
}

// e^x within a few units in the last place; 0 if the result would be subnormal. Range reduction as in
// element_wise/math.h; the polynomial is Taylor's, whose next term is below 2^-56 on the reduced range.
HWY_INLINE V exp(V x) {
  const D d;
  const hn::RebindToUnsigned<D> bits;
  constexpr double kMost = 709.78, kLeast = -708.0;
  const V bounded = hn::Min(hn::Max(x, set(kLeast)), set(kMost));
  // Adding 1.5 * 2^52 rounds a number to an integer, which is then in the low bits of the sum.
  const V shift = set(0x1.8p52);
  const V shifted = hn::MulAdd(bounded, set(1.4426950408889634), shift);
  const V n = hn::Sub(shifted, shift);
  V r = hn::NegMulAdd(n, set(0x1.62e42feep-1), bounded);  // the first 32 bits of ln 2: exact for |n| < 2^20
  r = hn::NegMulAdd(n, set(1.90821492927058770002e-10), r);
  const V p = taylor(r, 1.0, 1.0, 0.5, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
                     1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800);
  // Scales by 2^(n - 1), whose exponent is never out of range, and then by 2.
  const V scale =
      hn::BitCast(d, hn::ShiftLeft<52>(hn::Add(hn::BitCast(bits, shifted), hn::Set(bits, std::uint64_t{1022}))));
  V y = hn::Mul(hn::Mul(p, set(2)), scale);
  y = hn::IfThenElse(hn::Gt(x, set(kMost)), set(std::numeric_limits<double>::infinity()), y);
  y = hn::IfThenElseZero(hn::Not(hn::Lt(x, set(kLeast))), y);
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE::wide
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_BACKENDS_CPU_DOUBLE_LANES_H
