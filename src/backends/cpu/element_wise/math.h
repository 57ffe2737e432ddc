// Vectorised float32 functions for Highway kernels: at most 2 units in the last place from the exact result, for every
// finite input and for infinities, NaN and subnormal numbers. element_wise_unary_test.cpp measures it.
//
// Included once per instruction set, after <hwy/highway.h>, inside the file that hwy/foreach_target.h repeats. Each
// function takes a tag of float lanes and a vector of any of its sizes; the scalar instruction set takes the same path.
//
// Range reduction is that of W. J. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980);
// polynomials are minimax fits by the Remez exchange algorithm on the reduced range, made for this file.
#if defined(TESSERA_BACKENDS_CPU_MATH_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_BACKENDS_CPU_MATH_H
#undef TESSERA_BACKENDS_CPU_MATH_H
#else
#define TESSERA_BACKENDS_CPU_MATH_H
#endif

#include <hwy/highway.h>

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE::math {

namespace hn = hwy::HWY_NAMESPACE;

// c0 + c1 x + c2 x² + …, by Horner's rule.
template <class D, class V>
HWY_INLINE V polynomial(D d, V, float c0) {
  return hn::Set(d, c0);
}
template <class D, class V, class... Coefficients>
HWY_INLINE V polynomial(D d, V x, float c0, Coefficients... higher) {
  return hn::MulAdd(polynomial(d, x, higher...), x, hn::Set(d, c0));
}

// The larger or smaller of a bound and x; NaN stays NaN on every instruction set. (x86's min and max return the second
// operand if either is NaN.)
template <class D, class V>
HWY_INLINE V at_least(D d, V x, float low) {
  const V bound = hn::Set(d, low);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::Max(bound, x);
#else
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#endif
}
template <class D, class V>
HWY_INLINE V at_most(D d, V x, float high) {
  const V bound = hn::Set(d, high);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::Min(bound, x);
#else
  return hn::IfThenElse(hn::Gt(x, bound), bound, x);
#endif
}

// x truncated to an integer. NaN gives any value; in the scalar set 0, where the conversion would be undefined.
template <class DI, class V>
HWY_INLINE hn::Vec<DI> to_integer(DI di, V x) {
#if HWY_TARGET == HWY_SCALAR
  x = hn::IfThenElseZero(hn::Eq(x, x), x);
#endif
  return hn::ConvertTo(di, x);
}

// 2^n for integral n in [-126, 127].
template <class D, class VI>
HWY_INLINE hn::Vec<D> power_of_two(D d, VI n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

// p 2^n for integral n in [-252, 254] and p in [1/2, 2]: infinity and subnormal numbers where the result is one.
#if HWY_TARGET == HWY_AVX3
template <class D>
HWY_INLINE hn::Vec512<float> scale(D, hn::Vec512<float> p, hn::Vec512<float> n) {
  return hn::Vec512<float>{_mm512_scalef_ps(p.raw, n.raw)};
}
template <class D>
HWY_INLINE hn::Vec256<float> scale(D, hn::Vec256<float> p, hn::Vec256<float> n) {
  return hn::Vec256<float>{_mm256_scalef_ps(p.raw, n.raw)};
}
template <class D, size_t lanes>
HWY_INLINE hn::Vec128<float, lanes> scale(D, hn::Vec128<float, lanes> p, hn::Vec128<float, lanes> n) {
  return hn::Vec128<float, lanes>{_mm_scalef_ps(p.raw, n.raw)};
}
#else
template <class D, class V>
HWY_INLINE V scale(D d, V p, V n) {
  const hn::RebindToSigned<D> di;
  const auto exponent = to_integer(di, n);
  if (hn::AllTrue(d, hn::Lt(hn::Abs(n), hn::Set(d, 126.0f)))) return hn::Mul(p, power_of_two(d, exponent));
  // Two factors, since n may leave the range of one exponent.
  const auto half = hn::ShiftRight<1>(exponent);
  return hn::Mul(hn::Mul(p, power_of_two(d, half)), power_of_two(d, hn::Sub(exponent, half)));
}
#endif

// a / b for b in [1, 2^60], with the error of a division or little more. With many lanes a division takes longer than a
// 14-bit reciprocal and one step of Newton's method on the quotient.
template <class D, class V>
HWY_INLINE V quotient(D, V a, V b) {
#if HWY_TARGET == HWY_AVX3
  const V inverse = hn::ApproximateReciprocal(b);
  const V rough = hn::Mul(a, inverse);
  return hn::MulAdd(hn::NegMulAdd(b, rough, a), inverse, rough);
#else
  return hn::Div(a, b);
#endif
}

// As above, if the result is a normal number.
template <class D, class V>
HWY_INLINE V scale_to_normal(D d, V p, V n) {
#if HWY_TARGET == HWY_AVX3
  return scale(d, p, n);
#else
  return hn::Mul(p, power_of_two(d, to_integer(hn::RebindToSigned<D>(), n)));
#endif
}

// Reduces x = n ln 2 + r with |r| <= ln 2 / 2; sets n and returns e^r - 1.
template <class D, class V>
HWY_INLINE V reduced_expm1(D d, V x, V& n) {
  n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);  // 9 bits: exact for |n| < 2^15
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // e^r = 1 + r + r² q(r), with q evaluated in pairs of terms: the latency of the polynomial bounds a row of
  // exponentials.
  const V r2 = hn::Mul(r, r);
  const V low = polynomial(d, r, 0.49999994f, 0.166665211f), high = polynomial(d, r, 0.0416682661f, 0.00836867373f);
  const V q = hn::MulAdd(r2, hn::MulAdd(r2, hn::Set(d, 0.00138206338f), high), low);
  return hn::MulAdd(r2, q, r);
}

// e^x; 0 and infinity outside the range of float, subnormal results included.
template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  V n;
  const V p = hn::Add(reduced_expm1(d, at_least(d, at_most(d, x, 89.0f), -105.0f), n), hn::Set(d, 1.0f));
  return scale(d, p, n);
}

// e^x for x <= 0, with results below 2^-126 flushed to 0: for softmax and the like, where they are lost in a sum
// anyway.
template <class D, class V>
HWY_INLINE V exp_of_nonpositive(D d, V x) {
  V n;
  const V p = hn::Add(reduced_expm1(d, at_least(d, x, -87.0f), n), hn::Set(d, 1.0f));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), scale_to_normal(d, p, n));
}

// e^x - 1 for x <= 0, accurate near 0.
template <class D, class V>
HWY_INLINE V expm1_of_nonpositive(D d, V x) {
  const hn::RebindToSigned<D> di;
  V n;
  const V t = reduced_expm1(d, at_least(d, x, -20.0f), n);  // e^-20 is below half an epsilon
  const V scale = power_of_two(d, to_integer(di, n));
  return hn::MulAdd(scale, t, hn::Sub(scale, hn::Set(d, 1.0f)));
}

// Natural logarithm: -infinity for ±0, NaN for negative numbers.
template <class D, class V>
HWY_INLINE V log(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto subnormal = hn::Lt(x, hn::Set(d, 0x1p-126f));
  const V scaled = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, 0x1p23f)), x);
  // scaled = 2^n m with m in [sqrt(1/2), sqrt(2)).
  const auto bits = hn::BitCast(di, scaled);
  const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3F3504F3)));
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
  const V n = hn::Sub(hn::ConvertTo(d, exponent), hn::IfThenElseZero(subnormal, hn::Set(d, 23.0f)));
  const V f = hn::Sub(m, hn::Set(d, 1.0f));
  const V f2 = hn::Mul(f, f);
  const V p = polynomial(d, f, 0.333333105f, -0.249999866f, 0.200022265f, -0.166692525f, 0.142186642f, -0.12384335f,
                         0.118729256f, -0.117898658f, 0.0691554174f);
  V y = hn::Mul(hn::Mul(p, f), f2);
  y = hn::MulAdd(n, hn::Set(d, -2.12194440e-4f), y);
  y = hn::NegMulAdd(hn::Set(d, 0.5f), f2, y);
  y = hn::MulAdd(n, hn::Set(d, 0.693359375f), hn::Add(f, y));
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V zero = hn::Zero(d);
  y = hn::IfThenElse(hn::Lt(x, infinity), y, x);  // infinity and NaN stay
  y = hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
  return hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
}

// log(1 + x) for 0 <= x <= 1: corrects the rounding error of 1 + x to first order.
template <class D, class V>
HWY_INLINE V log1p_of_fraction(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V sum = hn::Add(one, x);
  const V lost = hn::Sub(x, hn::Sub(sum, one));
  return hn::Add(log(d, sum), hn::Div(lost, sum));
}

// 1 / (1 + e^-x), computed from e^-|x| so that nothing overflows and small results keep their digits.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  V n;
  const V p = hn::Add(reduced_expm1(d, at_least(d, hn::Neg(hn::Abs(x)), -105.0f), n), one);
  const V e = scale(d, p, n);
  return quotient(d, hn::IfNegativeThenElse(x, e, one), hn::Add(one, e));
}

// With t = e^(-2|x|) - 1: tanh |x| = -t / (2 + t).
template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  const V t = expm1_of_nonpositive(d, hn::Mul(hn::Abs(x), hn::Set(d, -2.0f)));
  return hn::CopySign(quotient(d, t, hn::Add(hn::Set(d, 2.0f), t)), x);
}

// Error function: x + x p(x²) up to 1, else 1 - e^-g(|x|) with g fitted to -log erfc.
template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V magnitude = hn::Abs(x);
  const V near = hn::MulAdd(polynomial(d, hn::Mul(x, x), 0.128379166f, -0.37612626f, 0.112836003f, -0.0268544443f,
                                       0.00518953567f, -0.000802084222f, 7.88912366e-05f),
                            x, x);
  const V g = polynomial(d, at_most(d, magnitude, 4.0f), -0.000182459335f, 1.12955201f, 0.633272409f, 0.108361542f,
                         -0.0251718014f, 0.00419085333f, -0.000438529416f, 2.14455195e-05f);
  V n;
  const V p = hn::Add(reduced_expm1(d, hn::Neg(g), n), one);
  const V far = hn::Sub(one, scale_to_normal(d, p, n));
  return hn::IfThenElse(hn::Gt(magnitude, one), hn::CopySign(far, x), near);
}

#if HWY_TARGET == HWY_AVX3
// erf(x) / x at multiples of 1/4, the rounding errors of these in float, and the next coefficients of the expansion
// there: fitted by least squares at Chebyshev nodes in double.
HWY_ALIGN constexpr float kErfPieces[7][16] = {
    {1.12837911f, 1.10530555f, 1.04099977f, 0.948207498f, 0.842700779f, 0.738320112f, 0.644070089f, 0.563812375f,
     0.497661144f, 0.44379434f, 0.399837226f, 0.363599777f, 0.333325982f, 0.307690978f, 0.28571406f, 0.266666651f},
    {5.73881813e-08f, 6.00690964e-09f, -1.45354697e-08f, 1.56702296e-08f, 1.55407296e-08f, -8.41752712e-09f,
     8.96706265e-09f, 8.07627387e-09f, -1.1530715e-08f, 7.95087107e-09f, -6.63704025e-09f, -3.4165899e-09f,
     -1.22540333e-08f, 5.72652104e-09f, 1.33471749e-08f, -1.44220635e-08f},
    {0, -0.181165725f, -0.32443434f, -0.407035261f, -0.427593291f, -0.40143919f, -0.350093216f, -0.292021364f,
     -0.238497078f, -0.194067568f, -0.159063578f, -0.132004902f, -0.111062236f, -0.0946651697f, -0.0816310495f,
     -0.071110867f},
    {-0.376122713f, -0.335348725f, -0.229913875f, -0.100219384f, 0.0124834599f, 0.0846288353f, 0.114464976f,
     0.114094824f, 0.0985821262f, 0.0791103244f, 0.0614473224f, 0.0474155545f, 0.0368814878f, 0.029098535f,
     0.0233177412f, 0.0189620052f},
    {0, 0.104719862f, 0.166897938f, 0.169340491f, 0.125883773f, 0.0663255602f, 0.0161920991f, -0.0136780078f,
     -0.0251793787f, -0.0255048182f, -0.021238979f, -0.016238302f, -0.0120308222f, -0.00889315456f, -0.00665012794f,
     -0.00505440822f},
    {0.112210467f, 0.0886064544f, 0.0323598199f, -0.0245321002f, -0.056299258f, -0.0577499531f, -0.0404915325f,
     -0.01975145f, -0.0047310465f, 0.00278750528f, 0.00501624728f, 0.00471193343f, 0.00366322137f, 0.00265144673f,
     0.00188360841f, 0.0013462425f},
    {0, -0.0356895626f, -0.04978019f, -0.0376870818f, -0.0125384182f, 0.00850323215f, 0.0169937126f, 0.0149851497f,
     0.00887202844f, 0.00349453348f, 0.000448343955f, -0.000704414444f, -0.000878721301f, -0.000718009309f,
     -0.000514393905f, -0.000354072428f},
};

// erf for vectors of sixteen lanes, whose coefficients are found by one look-up each: x (p + p's rounding error + t
// q(t)), with t the distance to the nearest multiple of 1/4.
template <class D>
HWY_INLINE hn::Vec512<float> erf(D d, hn::Vec512<float> x) {
  using V = hn::Vec512<float>;
  const V magnitude = at_most(d, hn::Abs(x), 4.0f), bounded = at_most(d, magnitude, 3.87499976f);
  const V shift = hn::Set(d, 3145728.0f);  // adding it rounds to multiples of 1/4: the last bits are the piece
  const V shifted = hn::Add(bounded, shift), t = hn::Sub(bounded, hn::Sub(shifted, shift));
  const auto coefficient = [&](int i) HWY_ATTR {
    return V{_mm512_permutexvar_ps(_mm512_castps_si512(shifted.raw), hn::Load(d, kErfPieces[i]).raw)};
  };
  V q = coefficient(6);
#pragma GCC unroll 8
  for (int i = 5; i > 0; --i) q = hn::MulAdd(q, t, coefficient(i));
  return hn::CopySign(at_most(d, hn::MulAdd(magnitude, coefficient(0), hn::Mul(magnitude, q)), 1.0f), x);
}
#endif

// log(1 + e^x)
template <class D, class V>
HWY_INLINE V softplus(D d, V x) {
  const V tail = log1p_of_fraction(d, exp(d, hn::Neg(hn::Abs(x))));
  return hn::Add(hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x), tail);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE::math
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_BACKENDS_CPU_MATH_H
