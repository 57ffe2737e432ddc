#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backends/backend.h"
#include "backends/reference/broadcast.h"
#include "base/error.h"
#include "base/numbers/integer_power.h"

namespace tessera::backends::reference {
namespace {

// z = f(x, y) for inputs 0 and 1, in the wide type of input 0.
template <typename F>
void combine(KernelContext& context, F f) {
  Tensor& output = context.output(0);
  with_wide_type(context.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> x = read_broadcast<T>(context.input(0), output.shape());
    const std::vector<T> y = read_broadcast<T>(context.input(1), output.shape());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(f(x[i], y[i]));
    write(x, output);
  });
}

// Folds all inputs, starting with the first, in the wide type; finish(x) is applied to each element at the end.
template <typename F, typename Finish>
void fold(KernelContext& context, F f, Finish finish) {
  Tensor& output = context.output(0);
  with_wide_type(context.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> result = read_broadcast<T>(context.input(0), output.shape());
    for (std::size_t k = 1; k < context.input_count(); ++k) {
      const TransientMemory one_operand(context.resources().allocator);
      const std::vector<T> next = read_broadcast<T>(context.input(k), output.shape());
      for (std::size_t i = 0; i < result.size(); ++i) result[i] = f(result[i], next[i]);
    }
    for (T& value : result) value = finish(value);
    write(result, output);
  });
}

const auto as_it_is = [](auto x) { return x; };

// Integer arithmetic wraps: it is computed in uint64.
template <typename T, typename F>
T wrapping(T x, T y, F f) {
  if constexpr (std::is_floating_point_v<T>) return f(x, y);
  else return static_cast<T>(f(static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(y)));
}

template <typename T>
void check_divisor(T divisor) {
  require(divisor != 0, ErrorKind::failed, "integer division by zero");
}

template <typename T>
T quotient(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return x / y;
  check_divisor(y);
  // The lowest integer divided by -1 wraps to itself.
  if constexpr (std::is_signed_v<T>) {
    if (y == T{-1}) return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(x));
  }
  return x / y;
}

// The remainder of truncated division (as in C), or of division rounded down.
template <typename T>
T remainder_of(T x, T y, bool truncated) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(x, y);
  } else {
    check_divisor(y);
    if constexpr (std::is_signed_v<T>) {
      if (y == T{-1}) return 0;
    }
    const T rest = x % y;
    return !truncated && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  }
}

// The larger (or smaller) of two; NaN if either is NaN.
template <typename T>
T pick(T x, T y, bool larger) {
  if (x != x) return x;
  if (y != y) return y;
  return (x < y) == larger ? y : x;
}

}  // namespace

void add(KernelContext& context) {
  combine(context, [](auto x, auto y) { return wrapping(x, y, [](auto a, auto b) { return a + b; }); });
}

void sub(KernelContext& context) {
  combine(context, [](auto x, auto y) { return wrapping(x, y, [](auto a, auto b) { return a - b; }); });
}

void mul(KernelContext& context) {
  combine(context, [](auto x, auto y) { return wrapping(x, y, [](auto a, auto b) { return a * b; }); });
}

void div(KernelContext& context) {
  combine(context, [](auto x, auto y) { return quotient(x, y); });
}

void mod(KernelContext& context) {
  const bool truncated = context.integer("fmod") != 0;
  combine(context, [=](auto x, auto y) { return remainder_of(x, y, truncated); });
}

void pow(KernelContext& context) {
  Tensor& output = context.output(0);
  if (!is_float(context.input(0).dtype()) && !is_float(context.input(1).dtype())) {
    // Unsigned exponents beyond int64 lose their highest bit: powers of 1 and -1 depend only on the parity, which is
    // kept, and other powers overflow anyway.
    std::vector<std::int64_t> x = read_broadcast<std::int64_t>(context.input(0), output.shape());
    const bool is_unsigned = is_unsigned_integer(context.input(1).dtype());
    const std::vector<std::int64_t> y = read_broadcast<std::int64_t>(context.input(1), output.shape());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::int64_t power = is_unsigned && y[i] < 0 ? y[i] & std::int64_t{0x7FFFFFFFFFFFFFFF} : y[i];
      x[i] = base::integer_power(x[i], power);
    }
    write(x, output);
    return;
  }
  std::vector<double> x = read_broadcast<double>(context.input(0), output.shape());
  const std::vector<double> y = read_broadcast<double>(context.input(1), output.shape());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::pow(x[i], y[i]);
  write(x, output);
}

void p_relu(KernelContext& context) {
  combine(context,
          [](auto x, auto slope) { return x < 0 ? wrapping(x, slope, [](auto a, auto b) { return a * b; }) : x; });
}

void bitwise_and(KernelContext& context) {
  combine(context, [](auto x, auto y) {
    if constexpr (std::is_floating_point_v<decltype(x)>) return x;
    else return x & y;
  });
}

void bitwise_or(KernelContext& context) {
  combine(context, [](auto x, auto y) {
    if constexpr (std::is_floating_point_v<decltype(x)>) return x;
    else return x | y;
  });
}

void bitwise_xor(KernelContext& context) {
  combine(context, [](auto x, auto y) {
    if constexpr (std::is_floating_point_v<decltype(x)>) return x;
    else return x ^ y;
  });
}

void bit_shift(KernelContext& context) {
  Tensor& output = context.output(0);
  const bool left = context.text("direction") == "LEFT";
  std::vector<std::uint64_t> x = read_broadcast<std::uint64_t>(context.input(0), output.shape());
  const std::vector<std::uint64_t> y = read_broadcast<std::uint64_t>(context.input(1), output.shape());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = y[i] >= 64 ? 0 : left ? x[i] << y[i] : x[i] >> y[i];
  write(x, output);
}

void max(KernelContext& context) {
  fold(context, [](auto x, auto y) { return pick(x, y, true); }, as_it_is);
}

void min(KernelContext& context) {
  fold(context, [](auto x, auto y) { return pick(x, y, false); }, as_it_is);
}

void sum(KernelContext& context) {
  fold(context, [](auto x, auto y) { return wrapping(x, y, [](auto a, auto b) { return a + b; }); }, as_it_is);
}

void mean(KernelContext& context) {
  const std::size_t count = context.input_count();
  fold(
      context, [](auto x, auto y) { return wrapping(x, y, [](auto a, auto b) { return a + b; }); },
      [=](auto x) { return quotient(x, static_cast<decltype(x)>(count)); });
}

void where(KernelContext& context) {
  Tensor& output = context.output(0);
  const std::vector<std::uint64_t> condition = read_broadcast<std::uint64_t>(context.input(0), output.shape());
  const std::vector<std::int64_t> x = broadcast_positions(context.input(1).shape(), output.shape());
  const std::vector<std::int64_t> y = broadcast_positions(context.input(2).shape(), output.shape());
  for (std::size_t i = 0; i < condition.size(); ++i) {
    const bool first = condition[i] != 0;
    copy_element(context.input(first ? 1 : 2), first ? x[i] : y[i], output, static_cast<std::int64_t>(i));
  }
}

}  // namespace tessera::backends::reference
