// z = x ^ y with broadcasting, for f32, f64, i32 and i64 in any combination; z may be the memory of x if elements have
// the same size. Powers of floats are computed in double lanes as 2 ^ (y log2 |x|), with an error far below that of
// rounding to float.
#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

#include "backends/cpu/element_wise/broadcast.h"
#include "backends/cpu/element_wise/cast.h"
#include "backends/cpu/element_wise/kernels.h"
#include "base/numbers/integer_power.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/element_wise/pow.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using DoubleTag = hn::ScalableTag<double>;
using Doubles = hn::Vec<DoubleTag>;
using Floats = hn::Rebind<float, DoubleTag>;

Doubles fixed(double value) {
  return hn::Set(DoubleTag(), value);
}

HWY_INLINE Doubles series(Doubles, double c) {
  return fixed(c);
}
template <class... Rest>
HWY_INLINE Doubles series(Doubles x, double c, Rest... higher) {
  return hn::MulAdd(series(x, higher...), x, fixed(c));
}

// The base-2 logarithm of a normal, positive x = 2^n m with m in [sqrt(1/2), sqrt(2)), by the series of 2 artanh((m -
// 1) / (m + 1)).
HWY_INLINE Doubles log2_of(Doubles x) {
  const DoubleTag d;
  const hn::RebindToSigned<DoubleTag> di;
  const auto bits = hn::BitCast(di, x);
  const auto n = hn::ShiftRight<52>(hn::Sub(bits, hn::Set(di, 0x3FE6A09E667F3BCD)));
  const Doubles m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<52>(n)));
  // Adding an integer to the bits of 1.5 2^52 adds it to the value.
  const Doubles shift = fixed(0x1.8p52);
  const Doubles exponent = hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(di, shift), n)), shift);
  const Doubles s = hn::Div(hn::Sub(m, fixed(1)), hn::Add(m, fixed(1))), z = hn::Mul(s, s);
  constexpr double k = 2.8853900817779268;  // 2 / ln 2
  return hn::MulAdd(s, series(z, k, k / 3, k / 5, k / 7, k / 9, k / 11, k / 13, k / 15, k / 17), exponent);
}

// 2^t for t in [-200, 200], by Taylor's series around the nearest integer.
HWY_INLINE Doubles exp2_of(Doubles t) {
  const DoubleTag d;
  const hn::RebindToSigned<DoubleTag> di;
  const Doubles shift = fixed(0x1.8p52), shifted = hn::Add(t, shift), r = hn::Sub(t, hn::Sub(shifted, shift));
  const Doubles p = series(r, 1.0, 0.6931471805599453, 0.2402265069591007, 0.05550410866482158, 0.009618129107628477,
                           0.0013333558146428443, 0.0001540353039338161, 1.525273380405984e-05, 1.3215486790144307e-06);
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<52>(hn::BitCast(di, shifted))));
}

// Computes what pow() of the C library does, for x that is not NaN and finite y.
HWY_INLINE Doubles power_of(Doubles x, Doubles y) {
  const DoubleTag d;
  const Doubles zero = hn::Zero(d), infinity = fixed(HUGE_VAL), magnitude = hn::Abs(x);
  const Doubles t = hn::Mul(y, log2_of(magnitude));
  Doubles result = exp2_of(hn::Min(hn::Max(t, fixed(-200)), fixed(200)));
  const auto is_zero = hn::Eq(magnitude, zero), is_infinite = hn::Eq(magnitude, infinity);
  const auto is_extreme = hn::Or(is_zero, is_infinite);
  const auto grows = hn::Xor(is_zero, hn::Gt(y, zero));  // to infinity, else to zero
  const Doubles extreme = hn::IfThenElse(hn::Eq(y, zero), fixed(1), hn::IfThenElseZero(grows, infinity));
  result = hn::IfThenElse(is_extreme, extreme, result);
  const Doubles half = hn::Mul(y, fixed(0.5));
  const auto is_whole = hn::Eq(hn::Round(y), y);
  const auto is_odd = hn::AndNot(hn::Eq(hn::Round(half), half), is_whole);
  result = hn::IfThenElse(is_odd, hn::CopySign(result, x), result);
  const auto is_undefined = hn::AndNot(hn::Or(is_whole, is_infinite), hn::Lt(x, zero));
  return hn::IfThenElse(is_undefined, fixed(NAN), result);
}

HWY_INLINE Doubles load_floats(const float* x) {
  return hn::PromoteTo(DoubleTag(), hn::LoadU(Floats(), x));
}

HWY_INLINE void store_floats(Doubles value, float* z) {
#if HWY_TARGET == HWY_SCALAR
  *z = static_cast<float>(hn::GetLane(value));  // Highway's own conversion gives the largest float for infinity
#else
  hn::StoreU(hn::DemoteTo(Floats(), value), Floats(), z);
#endif
}

float scalar_power(float x, float y) {
  return static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y)));
}

// Computes one vector of powers.
HWY_INLINE void powers(const float* x, const float* y, float* z) {
  const DoubleTag d;
  const Doubles a = load_floats(x), b = load_floats(y);
  const auto usual = hn::And(hn::Eq(a, a), hn::Lt(hn::Abs(b), fixed(HUGE_VAL)));
  if (hn::AllTrue(d, usual)) return store_floats(power_of(a, b), z);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) z[i] = scalar_power(x[i], y[i]);
}

}  // namespace

// x and y advance, or repeat one element; the result of an element does not depend on its position in the line.
void pow_line(const float* x, bool x_moves, const float* y, bool y_moves, float* z, std::int64_t count) {
  constexpr std::size_t most = hn::MaxLanes(DoubleTag());
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(DoubleTag()));
  HWY_ALIGN float bases[most], exponents[most], results[most];
  std::fill_n(bases, most, *x);
  std::fill_n(exponents, most, *y);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) powers(x_moves ? x + i : bases, y_moves ? y + i : exponents, z + i);
  if (i == count) return;
  if (x_moves) std::copy_n(x + i, count - i, bases);
  if (y_moves) std::copy_n(y + i, count - i, exponents);
  powers(bases, exponents, results);
  std::copy_n(results, count - i, z + i);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(pow_line);

// Elements per chunk.
constexpr std::int64_t kPowGrain = 8192, kSquareGrain = 32768, kScalarPowGrain = 2048;

bool is_power_type(DType type) {
  return type == DType::f32 || type == DType::f64 || type == DType::i32 || type == DType::i64;
}

// Whether the exponent has a formula of its own.
bool has_formula(double power) {
  return power == 2 || power == 3 || power == 0.5 || power == -1;
}

template <typename T>
void formula_line(const T* x, T* z, std::int64_t count, double power) {
  if (power == 2) {
    for (std::int64_t i = 0; i < count; ++i) z[i] = x[i] * x[i];
  } else if (power == 3) {
    for (std::int64_t i = 0; i < count; ++i) z[i] = static_cast<T>(static_cast<double>(x[i]) * x[i] * x[i]);
  } else if (power == -1) {
    for (std::int64_t i = 0; i < count; ++i) z[i] = T{1} / x[i];
  } else {
    // Unlike sqrt, pow returns +0 for -0 and +infinity for -infinity.
    for (std::int64_t i = 0; i < count; ++i) z[i] = std::isinf(x[i]) ? std::fabs(x[i]) : std::sqrt(x[i]) + T{0};
  }
}

// Truncates floats to 64 bits, saturating, of which i32 keeps the low bits.
template <typename T>
T result_of(double value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    if (std::isnan(value)) return 0;
    const double bounded = std::clamp(value, -0x1p63, 0x1.fffffffffffffp62);
    return value >= 0x1p63 ? static_cast<T>(std::numeric_limits<std::int64_t>::max())
                           : static_cast<T>(static_cast<std::int64_t>(bounded));
  }
}

template <typename X, typename Y>
void scalar_pow_line(const void* x_data, std::int64_t x_step, const void* y_data, std::int64_t y_step, void* z_data,
                     std::int64_t count) {
  const auto* x = static_cast<const X*>(x_data);
  const auto* y = static_cast<const Y*>(y_data);
  auto* z = static_cast<X*>(z_data);
  for (std::int64_t i = 0; i < count; ++i) {
    const X base = x[i * x_step];
    const Y power = y[i * y_step];
    if constexpr (std::is_integral_v<X> && std::is_integral_v<Y>)
      z[i] = static_cast<X>(base::integer_power(base, power));
    else z[i] = result_of<X>(std::pow(static_cast<double>(base), static_cast<double>(power)));
  }
}

using ScalarPowLine = void (*)(const void* x, std::int64_t x_step, const void* y, std::int64_t y_step, void* z,
                               std::int64_t count);

template <typename X>
ScalarPowLine scalar_pow_with(DType y) {
  switch (y) {
    case DType::f32:
      return scalar_pow_line<X, float>;
    case DType::f64:
      return scalar_pow_line<X, double>;
    case DType::i32:
      return scalar_pow_line<X, std::int32_t>;
    default:
      return scalar_pow_line<X, std::int64_t>;
  }
}

ScalarPowLine scalar_pow(DType x, DType y) {
  switch (x) {
    case DType::f32:
      return scalar_pow_with<float>(y);
    case DType::f64:
      return scalar_pow_with<double>(y);
    case DType::i32:
      return scalar_pow_with<std::int32_t>(y);
    default:
      return scalar_pow_with<std::int64_t>(y);
  }
}

class PowKernel final : public Kernel {
 public:
  explicit PowKernel(const ops::NodeView& view)
      : broadcast_(view.output(0).shape, {&view.input(0).shape, &view.input(1).shape}),
        x_type_(view.input(0).dtype),
        y_type_(view.input(1).dtype),
        x_bytes_(bits_of(x_type_) / 8),
        y_bytes_(bits_of(y_type_) / 8),
        scalar_line_(scalar_pow(x_type_, y_type_)),
        to_double_(cast_line(y_type_, DType::f64)) {}

  void run(KernelContext& context) const override {
    if (is_float(x_type_) && context.input(1).elements() == 1) {
      double power = 0;
      to_double_(context.input(1).raw(), &power, 1);
      if (has_formula(power) && context.input(0).elements() == context.output(0).elements())
        return run_formula(context, power);
      const auto narrow = static_cast<float>(power);
      if (x_type_ == DType::f32 && static_cast<double>(narrow) == power) return run_floats(context, &narrow);
    }
    if (x_type_ == DType::f32 && y_type_ == DType::f32) return run_floats(context, context.input(1).data<float>());
    const auto* x = static_cast<const std::byte*>(context.input(0).raw());
    const auto* y = static_cast<const std::byte*>(context.input(1).raw());
    auto* z = static_cast<std::byte*>(context.output(0).mutable_raw());
    const std::int64_t x_step = broadcast_.line_stride(0), y_step = broadcast_.line_stride(1);
    broadcast_.walk(context, kScalarPowGrain, [&](const auto& from, std::int64_t to, std::int64_t count) {
      scalar_line_(x + from[0] * x_bytes_, x_step, y + from[1] * y_bytes_, y_step, z + to * x_bytes_, count);
    });
  }

 private:
  void run_formula(KernelContext& context, double power) const {
    context.parallel_for(context.output(0).elements(), kSquareGrain, [&](std::int64_t begin, std::int64_t end) {
      if (x_type_ == DType::f32)
        return formula_line(context.input(0).data<float>() + begin, context.output(0).mutable_data<float>() + begin,
                            end - begin, power);
      formula_line(context.input(0).data<double>() + begin, context.output(0).mutable_data<double>() + begin,
                   end - begin, power);
    });
  }

  void run_floats(KernelContext& context, const float* y) const {
    const float* x = context.input(0).data<float>();
    float* z = context.output(0).mutable_data<float>();
    const bool x_moves = broadcast_.line_stride(0) != 0, y_moves = broadcast_.line_stride(1) != 0;
    broadcast_.walk(context, kPowGrain, [&](const auto& from, std::int64_t to, std::int64_t count) {
      HWY_DYNAMIC_DISPATCH(pow_line)(x + from[0], x_moves, y + from[1], y_moves, z + to, count);
    });
  }

  Broadcast broadcast_;
  DType x_type_, y_type_;
  std::int64_t x_bytes_, y_bytes_;
  ScalarPowLine scalar_line_;
  CastLine to_double_;
};

}  // namespace

std::string reject_pow(const ops::NodeView& view) {
  if (view.output(0).dtype == DType::undefined) return "wants known shapes";
  return is_power_type(view.input(0).dtype) && is_power_type(view.input(1).dtype) ? "" : "takes f32, f64, i32 and i64";
}

std::unique_ptr<Kernel> make_pow(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<PowKernel>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
