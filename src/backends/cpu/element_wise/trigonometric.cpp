// Sine, cosine and tangent in double lanes, so that multiples of pi/2 are subtracted nearly exactly; large arguments,
// which need more digits of pi, are left to the C library. Inverse functions in float lanes, by the reductions and
// polynomials of the Cephes library (S. L. Moshier, "Methods and Programs for Mathematical Functions", 1989).
#include "backends/cpu/element_wise/trigonometric.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/element_wise/trigonometric.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/element_wise/math.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using WideTag = hn::ScalableTag<double>;
using Wide = hn::Vec<WideTag>;
using NarrowTag = hn::Rebind<float, WideTag>;
using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;

enum class Circular { sin, cos, tan };

// For larger arguments, the nearest multiple of pi/2 times its constant would be rounded.
constexpr double kLargestArgument = 0x1p19;

HWY_INLINE Wide constant(double value) {
  return hn::Set(WideTag(), value);
}

// Reduces x = n pi/2 + r with |r| <= pi/4; sine and cosine of r by Taylor's series, swapped and negated by the quadrant
// n.
template <Circular kind>
HWY_INLINE Wide circular(Wide x) {
  const WideTag d;
  const hn::RebindToSigned<WideTag> di;
  const Wide shift = constant(0x1.8p52), shifted = hn::MulAdd(x, constant(0.6366197723675814), shift);
  const Wide n = hn::Sub(shifted, shift);
  // Subtracts pi/2 in two parts, the first of 33 bits.
  Wide r = hn::NegMulAdd(n, constant(0x1.921fb544p0), x);
  r = hn::NegMulAdd(n, constant(0x1.0b4611a626331p-34), r);
  const Wide z = hn::Mul(r, r);
  Wide s = hn::MulAdd(z, constant(-1.0 / 39916800), constant(1.0 / 362880));
  s = hn::MulAdd(z, s, constant(-1.0 / 5040));
  s = hn::MulAdd(z, s, constant(1.0 / 120));
  s = hn::MulAdd(z, s, constant(-1.0 / 6));
  const Wide sine = hn::Mul(r, hn::MulAdd(z, s, constant(1)));
  Wide c = hn::MulAdd(z, constant(-1.0 / 3628800), constant(1.0 / 40320));
  c = hn::MulAdd(z, c, constant(-1.0 / 720));
  c = hn::MulAdd(z, c, constant(1.0 / 24));
  c = hn::MulAdd(z, c, constant(-0.5));
  const Wide cosine = hn::MulAdd(z, c, constant(1));
  // The last bits of 1.5 2^52 plus an integer are the integer's.
  const auto quadrant = hn::BitCast(di, shifted);
  const auto is_odd = hn::MaskFromVec(hn::BitCast(d, hn::Neg(hn::And(quadrant, hn::Set(di, 1)))));
  if constexpr (kind == Circular::tan)
    return hn::IfThenElse(is_odd, hn::Neg(hn::Div(cosine, sine)), hn::Div(sine, cosine));
  constexpr std::int64_t turn = kind == Circular::cos ? 1 : 0;
  const auto sign = hn::ShiftLeft<62>(hn::And(hn::Add(quadrant, hn::Set(di, turn)), hn::Set(di, 2)));
  const Wide chosen =
      kind == Circular::sin ? hn::IfThenElse(is_odd, cosine, sine) : hn::IfThenElse(is_odd, sine, cosine);
  return hn::Xor(chosen, hn::BitCast(d, sign));
}

template <Circular kind>
float by_library(float x) {
  if (kind == Circular::sin) return std::sin(x);
  return kind == Circular::cos ? std::cos(x) : std::tan(x);
}

// Computes one vector.
template <Circular kind>
HWY_INLINE void circular_lanes(const float* x, float* y) {
  const WideTag d;
  const Wide value = hn::PromoteTo(d, hn::LoadU(NarrowTag(), x));
  if (!hn::AllTrue(d, hn::Lt(hn::Abs(value), constant(kLargestArgument)))) {
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) y[i] = by_library<kind>(x[i]);
    return;
  }
#if HWY_TARGET == HWY_SCALAR
  *y = static_cast<float>(hn::GetLane(circular<kind>(value)));
#else
  hn::StoreU(hn::DemoteTo(NarrowTag(), circular<kind>(value)), NarrowTag(), y);
#endif
}

template <Circular kind>
void circular_row(const float* x, float* y, std::int64_t count) {
  constexpr std::size_t most = hn::MaxLanes(WideTag());
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(WideTag()));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) circular_lanes<kind>(x + i, y + i);
  if (i == count) return;
  HWY_ALIGN float rest[most] = {};
  std::copy_n(x + i, count - i, rest);
  circular_lanes<kind>(rest, rest);
  std::copy_n(rest, count - i, y + i);
}

HWY_INLINE FloatVector number(float value) {
  return hn::Set(FloatTag(), value);
}

// (arcsin x - x) / x as a function of z = x² in [0, 1/4].
HWY_INLINE FloatVector arcsine_rest(FloatVector z) {
  const FloatTag d;
  return hn::Mul(
      z, math::polynomial(d, z, 0.16666752422f, 0.074953002686f, 0.045470025998f, 0.024181311049f, 0.042163199048f));
}

// NaN for |x| > 1, by the square root of the distance from 1.
HWY_INLINE FloatVector arcsine(FloatVector x) {
  const FloatVector a = hn::Abs(x), half = number(0.5f);
  const auto is_large = hn::Gt(a, half);
  const FloatVector z = hn::IfThenElse(is_large, hn::Mul(half, hn::Sub(number(1), a)), hn::Mul(a, a));
  const FloatVector from = hn::IfThenElse(is_large, hn::Sqrt(z), a);
  const FloatVector angle = hn::MulAdd(arcsine_rest(z), from, from);
  const FloatVector large = hn::Sub(number(1.57079633f), hn::Add(angle, angle));
  return hn::CopySign(hn::IfThenElse(is_large, large, angle), x);
}

HWY_INLINE FloatVector arccosine(FloatVector x) {
  const FloatVector a = hn::Abs(x), half = number(0.5f);
  const auto is_large = hn::Gt(a, half);
  const FloatVector z = hn::IfThenElse(is_large, hn::Mul(half, hn::Sub(number(1), a)), hn::Mul(a, a));
  const FloatVector from = hn::IfThenElse(is_large, hn::Sqrt(z), x);
  const FloatVector angle = hn::MulAdd(arcsine_rest(z), from, from), twice = hn::Add(angle, angle);
  const FloatVector large = hn::IfThenElse(hn::Lt(x, hn::Zero(FloatTag())), hn::Sub(number(3.14159265f), twice), twice);
  return hn::IfThenElse(is_large, large, hn::Sub(number(1.57079633f), angle));
}

// Reduces |x| above tan(3 pi/8) to -1/x and above tan(pi/8) to (x - 1)/(x + 1), and adds pi/2 and pi/4.
HWY_INLINE FloatVector arctangent(FloatVector x) {
  const FloatTag d;
  const FloatVector a = hn::Abs(x), one = number(1), zero = hn::Zero(d);
  const auto is_large = hn::Gt(a, number(2.41421356f)), is_middle = hn::Gt(a, number(0.414213562f));
  const FloatVector above = hn::IfThenElse(is_large, number(-1), hn::IfThenElse(is_middle, hn::Sub(a, one), a));
  const FloatVector below = hn::IfThenElse(is_large, a, hn::IfThenElse(is_middle, hn::Add(a, one), one));
  const FloatVector start =
      hn::IfThenElse(is_large, number(1.57079633f), hn::IfThenElse(is_middle, number(0.785398163f), zero));
  const FloatVector t = hn::Div(above, below), z = hn::Mul(t, t);
  const FloatVector p = math::polynomial(d, z, -0.333329491539f, 0.199777106478f, -0.138776856032f, 0.0805374449538f);
  return hn::CopySign(hn::Add(start, hn::MulAdd(hn::Mul(p, z), t, t)), x);
}

template <FloatVector (*function)(FloatVector)>
void inverse_row(const float* x, float* y, std::int64_t count) {
  const FloatTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(function(hn::LoadU(d, x + i)), d, y + i);
  if (i == count) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(count - i));
  hn::BlendedStore(function(hn::MaskedLoad(rest, d, x + i)), rest, d, y + i);
}

}  // namespace

void sin_lanes(const float* x, float* y, std::int64_t count) {
  circular_row<Circular::sin>(x, y, count);
}
void cos_lanes(const float* x, float* y, std::int64_t count) {
  circular_row<Circular::cos>(x, y, count);
}
void tan_lanes(const float* x, float* y, std::int64_t count) {
  circular_row<Circular::tan>(x, y, count);
}
void asin_lanes(const float* x, float* y, std::int64_t count) {
  inverse_row<arcsine>(x, y, count);
}
void acos_lanes(const float* x, float* y, std::int64_t count) {
  inverse_row<arccosine>(x, y, count);
}
void atan_lanes(const float* x, float* y, std::int64_t count) {
  inverse_row<arctangent>(x, y, count);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(sin_lanes);
HWY_EXPORT(cos_lanes);
HWY_EXPORT(tan_lanes);
HWY_EXPORT(asin_lanes);
HWY_EXPORT(acos_lanes);
HWY_EXPORT(atan_lanes);

void sin_row(const float* x, float* y, std::int64_t count, UnaryParameters) {
  HWY_DYNAMIC_DISPATCH(sin_lanes)(x, y, count);
}
void cos_row(const float* x, float* y, std::int64_t count, UnaryParameters) {
  HWY_DYNAMIC_DISPATCH(cos_lanes)(x, y, count);
}
void tan_row(const float* x, float* y, std::int64_t count, UnaryParameters) {
  HWY_DYNAMIC_DISPATCH(tan_lanes)(x, y, count);
}
void asin_row(const float* x, float* y, std::int64_t count, UnaryParameters) {
  HWY_DYNAMIC_DISPATCH(asin_lanes)(x, y, count);
}
void acos_row(const float* x, float* y, std::int64_t count, UnaryParameters) {
  HWY_DYNAMIC_DISPATCH(acos_lanes)(x, y, count);
}
void atan_row(const float* x, float* y, std::int64_t count, UnaryParameters) {
  HWY_DYNAMIC_DISPATCH(atan_lanes)(x, y, count);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
