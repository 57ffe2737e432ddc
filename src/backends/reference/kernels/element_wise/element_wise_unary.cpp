#include <cmath>
#include <optional>
#include <type_traits>

#include "backends/backend.h"
#include "backends/reference/map.h"

namespace tessera::backends::reference {
namespace {

// 0 - x, which wraps for the lowest integer.
template <typename T>
T negative(T x) {
  if constexpr (std::is_floating_point_v<T>) return -x;
  else return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(x));
}

template <typename F>
void test_elements(KernelContext& context, F f) {
  const std::vector<double> values = read<double>(context.input(0));
  bool* result = context.output(0).mutable_data<bool>();
  for (std::size_t i = 0; i < values.size(); ++i) result[i] = f(values[i]);
}

template <typename T>
std::optional<T> bound(const KernelContext& context, std::size_t i) {
  if (!context.has_input(i)) return std::nullopt;
  const Tensor& value = context.input(i);
  require(value.elements() == 1, ErrorKind::invalid_model, "a bound has shape {}, expected a scalar",
          to_string(value.shape()));
  return read<T>(value)[0];
}

}  // namespace

void abs(KernelContext& context) {
  map_elements(context, [](auto x) {
    if constexpr (std::is_floating_point_v<decltype(x)>) return std::fabs(x);
    else return x < 0 ? negative(x) : x;
  });
}

void neg(KernelContext& context) {
  map_elements(context, [](auto x) { return negative(x); });
}

// NaN stays NaN.
void sign(KernelContext& context) {
  map_elements(context, [](auto x) {
    using T = decltype(x);
    return x > 0 ? T{1} : x < 0 ? negative(T{1}) : x;
  });
}

void bitwise_not(KernelContext& context) {
  map_elements(context, [](auto x) {
    using T = decltype(x);
    if constexpr (std::is_floating_point_v<T>) return x;
    else return static_cast<T>(~x);
  });
}

void logical_not(KernelContext& context) {
  map_elements(context, [](auto x) { return x == 0 ? decltype(x){1} : decltype(x){0}; });
}

void acos(KernelContext& context) {
  map_as_double(context, [](double x) { return std::acos(x); });
}
void acosh(KernelContext& context) {
  map_as_double(context, [](double x) { return std::acosh(x); });
}
void asin(KernelContext& context) {
  map_as_double(context, [](double x) { return std::asin(x); });
}
void asinh(KernelContext& context) {
  map_as_double(context, [](double x) { return std::asinh(x); });
}
void atan(KernelContext& context) {
  map_as_double(context, [](double x) { return std::atan(x); });
}
void atanh(KernelContext& context) {
  map_as_double(context, [](double x) { return std::atanh(x); });
}
void ceil(KernelContext& context) {
  map_as_double(context, [](double x) { return std::ceil(x); });
}
void cos(KernelContext& context) {
  map_as_double(context, [](double x) { return std::cos(x); });
}
void cosh(KernelContext& context) {
  map_as_double(context, [](double x) { return std::cosh(x); });
}
void erf(KernelContext& context) {
  map_as_double(context, [](double x) { return std::erf(x); });
}
void exp(KernelContext& context) {
  map_as_double(context, [](double x) { return std::exp(x); });
}
void floor(KernelContext& context) {
  map_as_double(context, [](double x) { return std::floor(x); });
}
void log(KernelContext& context) {
  map_as_double(context, [](double x) { return std::log(x); });
}
void reciprocal(KernelContext& context) {
  map_as_double(context, [](double x) { return 1.0 / x; });
}
// nearbyint rounds halves to even in the default rounding mode.
void round(KernelContext& context) {
  map_as_double(context, [](double x) { return std::nearbyint(x); });
}
void sin(KernelContext& context) {
  map_as_double(context, [](double x) { return std::sin(x); });
}
void sinh(KernelContext& context) {
  map_as_double(context, [](double x) { return std::sinh(x); });
}
void sqrt(KernelContext& context) {
  map_as_double(context, [](double x) { return std::sqrt(x); });
}
void tan(KernelContext& context) {
  map_as_double(context, [](double x) { return std::tan(x); });
}

void is_inf(KernelContext& context) {
  const bool negative = context.integer("detect_negative") != 0, positive = context.integer("detect_positive") != 0;
  test_elements(context, [=](double x) { return std::isinf(x) && (x < 0 ? negative : positive); });
}

void is_nan(KernelContext& context) {
  test_elements(context, [](double x) { return std::isnan(x); });
}

void clip(KernelContext& context) {
  with_wide_type(context.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::optional<T> lowest = bound<T>(context, 1), highest = bound<T>(context, 2);
    std::vector<T> values = read<T>(context.input(0));
    for (T& x : values) {
      if (lowest && x < *lowest) x = *lowest;
      if (highest && x > *highest) x = *highest;
    }
    write(values, context.output(0));
  });
}

}  // namespace tessera::backends::reference
