// Loops over contiguous elements, which the compiler vectorises for each instruction set.
#include "backends/cpu/element_wise/typed_lines.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "backends/cpu/element_wise/independent_elements.h"
#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/element_wise/typed_lines.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

template <Arithmetic kind, typename T>
HWY_INLINE T divide_integers(T x, T y) {
  require(y != 0, ErrorKind::failed, "integer division by zero");
  if constexpr (std::is_signed_v<T>) {
    // The lowest integer divided by -1 wraps to itself.
    if (y == T{-1})
      return kind == Arithmetic::div ? static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(x)) : T{0};
  }
  if constexpr (kind == Arithmetic::div) return static_cast<T>(x / y);
  const T rest = static_cast<T>(x % y);
  return kind == Arithmetic::mod && rest != 0 && (rest < 0) != (y < 0) ? static_cast<T>(rest + y) : rest;
}

template <Arithmetic kind, typename T>
HWY_INLINE T combine_integers(T x, T y) {
  // Computes in an unsigned type of at least int's size, so that arithmetic wraps: smaller types would be promoted to
  // int, which must not overflow.
  using U = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;
  const auto a = static_cast<U>(x), b = static_cast<U>(y);
  if constexpr (kind == Arithmetic::add) return static_cast<T>(a + b);
  if constexpr (kind == Arithmetic::sub) return static_cast<T>(a - b);
  if constexpr (kind == Arithmetic::mul) return static_cast<T>(a * b);
  if constexpr (kind == Arithmetic::bit_and) return static_cast<T>(a & b);
  if constexpr (kind == Arithmetic::bit_or) return static_cast<T>(a | b);
  if constexpr (kind == Arithmetic::bit_xor) return static_cast<T>(a ^ b);
  // ONNX shifts unsigned integers only.
  if constexpr (kind == Arithmetic::shift_left) return static_cast<T>(b >= 8 * sizeof(T) ? 0 : a << b);
  if constexpr (kind == Arithmetic::shift_right) return static_cast<T>(b >= 8 * sizeof(T) ? 0 : a >> b);
  if constexpr (kind == Arithmetic::max) return x < y ? y : x;
  if constexpr (kind == Arithmetic::min) return x < y ? x : y;
  if constexpr (kind == Arithmetic::p_relu) return x < 0 ? static_cast<T>(a * b) : x;
  if constexpr (kind == Arithmetic::div || kind == Arithmetic::mod || kind == Arithmetic::fmod)
    return divide_integers<kind>(x, y);
}

template <Arithmetic kind, typename T>
HWY_INLINE T combine_floats(T x, T y) {
  if constexpr (kind == Arithmetic::add) return x + y;
  if constexpr (kind == Arithmetic::sub) return x - y;
  if constexpr (kind == Arithmetic::mul) return x * y;
  if constexpr (kind == Arithmetic::div) return x / y;
  if constexpr (kind == Arithmetic::mod || kind == Arithmetic::fmod) return std::fmod(x, y);
  // The result is NaN if either operand is NaN.
  if constexpr (kind == Arithmetic::max) return x != x ? x : y != y ? y : x < y ? y : x;
  if constexpr (kind == Arithmetic::min) return x != x ? x : y != y ? y : x < y ? x : y;
  if constexpr (kind == Arithmetic::p_relu) return x < 0 ? x * y : x;
}

template <Arithmetic kind>
struct Combine {
  static constexpr bool divides = kind == Arithmetic::div || kind == Arithmetic::mod || kind == Arithmetic::fmod;
  static constexpr Arithmetic kKind = kind;
  template <typename T>
  HWY_INLINE T operator()(T x, T y) const {
    if constexpr (std::is_floating_point_v<T>) return combine_floats<kind>(x, y);
    else return combine_integers<kind>(x, y);
  }
};

// Logic on bytes, without branches so that it can be vectorised.
struct LogicalAnd {
  HWY_INLINE std::uint8_t operator()(std::uint8_t x, std::uint8_t y) const { return (x != 0) & (y != 0); }
};
struct LogicalOr {
  HWY_INLINE std::uint8_t operator()(std::uint8_t x, std::uint8_t y) const { return (x | y) != 0; }
};
struct LogicalXor {
  HWY_INLINE std::uint8_t operator()(std::uint8_t x, std::uint8_t y) const { return (x != 0) != (y != 0); }
};

template <typename F, typename T, typename Z, bool x_moves, bool y_moves>
void typed_line(const void* x_data, const void* y_data, void* z_data, std::int64_t count) {
  const auto *x = static_cast<const T*>(x_data), *y = static_cast<const T*>(y_data);
  auto* z = static_cast<Z*>(z_data);
  const F f;
  const T x_first = *x, y_first = *y;  // read before z, which may be the memory of either, is written
  const auto at = [&](std::int64_t i) { z[i] = static_cast<Z>(f(x_moves ? x[i] : x_first, y_moves ? y[i] : y_first)); };
  std::int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    TESSERA_INDEPENDENT_ELEMENTS
    for (std::int64_t k = 0; k < kTogether; ++k) at(i + k);
  }
  for (; i < count; ++i) at(i);
}

template <typename F, typename T, typename Z>
BinaryLine typed_pick(bool x_moves, bool y_moves) {
  if (x_moves && y_moves) return typed_line<F, T, Z, true, true>;
  if (x_moves) return typed_line<F, T, Z, true, false>;
  return y_moves ? typed_line<F, T, Z, false, true> : typed_line<F, T, Z, false, false>;
}

// Integer division in floating point, exact before truncation: a quotient that is not an integer differs from the next
// integer by more than half a unit in the last place. 64-bit integers only if they are small enough.
template <typename T>
constexpr bool kDividedByFloats =
    sizeof(T) < 4 || std::is_same_v<T, std::int32_t> || (std::is_same_v<T, std::int64_t> && HWY_TARGET == HWY_AVX3);

template <Arithmetic kind, typename T>
HWY_INLINE T divide_by_floats(T x, T y) {
  using Float = std::conditional_t<(sizeof(T) < 4), float, double>;
  using Whole = std::conditional_t<(sizeof(T) < 8), std::int32_t, std::int64_t>;
  using Bits = std::make_unsigned_t<Whole>;
  Float exact = static_cast<Float>(x) / static_cast<Float>(y);
  // The lowest integer divided by -1 wraps to itself.
  if constexpr (sizeof(T) == 4) exact = exact >= Float{0x1p31} ? Float{-0x1p31} : exact;
  const auto quotient = static_cast<Whole>(exact);
  if constexpr (kind == Arithmetic::div) return static_cast<T>(quotient);
  const auto rest = static_cast<Whole>(static_cast<Bits>(x) - static_cast<Bits>(quotient) * static_cast<Bits>(y));
  if constexpr (kind == Arithmetic::fmod) return static_cast<T>(rest);
  const bool is_below = rest != 0 && (rest < 0) != (y < 0);
  return static_cast<T>(is_below ? static_cast<Whole>(rest + y) : rest);
}

// Whether kTogether elements can be divided in floating point: no divisor is zero, and all are represented exactly.
template <typename T, bool x_moves, bool y_moves>
HWY_INLINE bool divide_as_floats(const T* x, T x_first, const T* y, T y_first) {
  std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t> unfit = 0;
  for (std::int64_t k = 0; k < kTogether; ++k) {
    const T dividend = x_moves ? x[k] : x_first, divisor = y_moves ? y[k] : y_first;
    unfit |= divisor == 0 ? 1 : 0;
    if constexpr (sizeof(T) == 8) {
      constexpr std::uint64_t bound = std::uint64_t{1} << 50;
      unfit |= static_cast<std::uint64_t>(dividend) + bound >= 2 * bound ? 1 : 0;
      unfit |= static_cast<std::uint64_t>(divisor) + bound >= 2 * bound ? 1 : 0;
    }
  }
  return unfit == 0;
}

template <Arithmetic kind, typename T, bool x_moves, bool y_moves>
HWY_INLINE void divide_together(const T* x, T x_first, const T* y, T y_first, T* z) {
  TESSERA_INDEPENDENT_ELEMENTS
  for (std::int64_t k = 0; k < kTogether; ++k)
    z[k] = divide_by_floats<kind>(x_moves ? x[k] : x_first, y_moves ? y[k] : y_first);
}

template <Arithmetic kind, typename T, bool x_moves, bool y_moves>
void division_line(const void* x_data, const void* y_data, void* z_data, std::int64_t count) {
  const auto *x = static_cast<const T*>(x_data), *y = static_cast<const T*>(y_data);
  auto* z = static_cast<T*>(z_data);
  const T x_first = *x, y_first = *y;
  const auto exactly = [&](std::int64_t i) HWY_ATTR {
    z[i] = divide_integers<kind>(x_moves ? x[i] : x_first, y_moves ? y[i] : y_first);
  };
  std::int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    if (divide_as_floats<T, x_moves, y_moves>(x + i, x_first, y + i, y_first)) {
      divide_together<kind, T, x_moves, y_moves>(x + i, x_first, y + i, y_first, z + i);
      continue;
    }
    for (std::int64_t k = i; k < i + kTogether; ++k) exactly(k);
  }
  for (; i < count; ++i) exactly(i);
}

template <Arithmetic kind, typename T>
BinaryLine division_pick(bool x_moves, bool y_moves) {
  if (x_moves && y_moves) return division_line<kind, T, true, true>;
  if (x_moves) return division_line<kind, T, true, false>;
  return y_moves ? division_line<kind, T, false, true> : division_line<kind, T, false, false>;
}

template <typename F, typename T>
constexpr bool divides_by_floats() {
  if constexpr (requires { F::divides; }) return F::divides && kDividedByFloats<T>;
  return false;
}

// Operators that depend on whether integers are signed.
template <typename F, bool of_bytes>
BinaryLine for_integer(DType type, bool x_moves, bool y_moves) {
  const auto pick = [&]<typename T>(T) {
    if constexpr (divides_by_floats<F, T>()) return division_pick<F::kKind, T>(x_moves, y_moves);
    else return typed_pick<F, T, std::conditional_t<of_bytes, std::uint8_t, T>>(x_moves, y_moves);
  };
  switch (type) {
    case DType::i8:
      return pick(std::int8_t{});
    case DType::i16:
      return pick(std::int16_t{});
    case DType::i32:
      return pick(std::int32_t{});
    case DType::i64:
      return pick(std::int64_t{});
    case DType::u16:
      return pick(std::uint16_t{});
    case DType::u32:
      return pick(std::uint32_t{});
    case DType::u64:
      return pick(std::uint64_t{});
    default:
      return pick(std::uint8_t{});  // also for bools
  }
}

// The unsigned type of the same size, for operators that do not depend on the sign.
DType without_sign(DType type) {
  const int bits = bits_of(type);
  return bits == 8 ? DType::u8 : bits == 16 ? DType::u16 : bits == 32 ? DType::u32 : DType::u64;
}

template <Arithmetic kind>
BinaryLine arithmetic_for(DType type, bool x_moves, bool y_moves) {
  constexpr bool is_bitwise = kind == Arithmetic::bit_and || kind == Arithmetic::bit_or ||
                              kind == Arithmetic::bit_xor || kind == Arithmetic::shift_left ||
                              kind == Arithmetic::shift_right;
  constexpr bool ignores_sign =
      is_bitwise || kind == Arithmetic::add || kind == Arithmetic::sub || kind == Arithmetic::mul;
  using F = Combine<kind>;
  if constexpr (!is_bitwise) {
    if (type == DType::f64) return typed_pick<F, double, double>(x_moves, y_moves);
  }
  if constexpr (kind == Arithmetic::fmod || kind == Arithmetic::mod) {
    if (type == DType::f32) return typed_pick<F, float, float>(x_moves, y_moves);
  }
  if (is_float(type)) return nullptr;
  return for_integer<F, false>(ignores_sign ? without_sign(type) : type, x_moves, y_moves);
}

template <typename F>
BinaryLine comparison_for(DType type, bool x_moves, bool y_moves) {
  if (type == DType::f64) return typed_pick<F, double, std::uint8_t>(x_moves, y_moves);
  return for_integer<F, true>(std::is_same_v<F, std::equal_to<>> ? without_sign(type) : type, x_moves, y_moves);
}

}  // namespace

BinaryLine arithmetic_line_of(Arithmetic kind, DType type, bool x_moves, bool y_moves) {
  switch (kind) {
    case Arithmetic::add:
      return arithmetic_for<Arithmetic::add>(type, x_moves, y_moves);
    case Arithmetic::sub:
      return arithmetic_for<Arithmetic::sub>(type, x_moves, y_moves);
    case Arithmetic::mul:
      return arithmetic_for<Arithmetic::mul>(type, x_moves, y_moves);
    case Arithmetic::div:
      return arithmetic_for<Arithmetic::div>(type, x_moves, y_moves);
    case Arithmetic::mod:
      return arithmetic_for<Arithmetic::mod>(type, x_moves, y_moves);
    case Arithmetic::fmod:
      return arithmetic_for<Arithmetic::fmod>(type, x_moves, y_moves);
    case Arithmetic::max:
      return arithmetic_for<Arithmetic::max>(type, x_moves, y_moves);
    case Arithmetic::min:
      return arithmetic_for<Arithmetic::min>(type, x_moves, y_moves);
    case Arithmetic::p_relu:
      return arithmetic_for<Arithmetic::p_relu>(type, x_moves, y_moves);
    case Arithmetic::bit_and:
      return arithmetic_for<Arithmetic::bit_and>(type, x_moves, y_moves);
    case Arithmetic::bit_or:
      return arithmetic_for<Arithmetic::bit_or>(type, x_moves, y_moves);
    case Arithmetic::bit_xor:
      return arithmetic_for<Arithmetic::bit_xor>(type, x_moves, y_moves);
    case Arithmetic::shift_left:
      return arithmetic_for<Arithmetic::shift_left>(without_sign(type), x_moves, y_moves);
    case Arithmetic::shift_right:
      return arithmetic_for<Arithmetic::shift_right>(without_sign(type), x_moves, y_moves);
  }
  return nullptr;
}

BinaryLine comparison_line_of(std::string_view op, DType type, bool x_moves, bool y_moves) {
  if (op == "Equal") return comparison_for<std::equal_to<>>(type, x_moves, y_moves);
  if (op == "Greater") return comparison_for<std::greater<>>(type, x_moves, y_moves);
  if (op == "GreaterOrEqual") return comparison_for<std::greater_equal<>>(type, x_moves, y_moves);
  if (op == "Less") return comparison_for<std::less<>>(type, x_moves, y_moves);
  if (op == "LessOrEqual") return comparison_for<std::less_equal<>>(type, x_moves, y_moves);
  if (op == "And") return typed_pick<LogicalAnd, std::uint8_t, std::uint8_t>(x_moves, y_moves);
  if (op == "Or") return typed_pick<LogicalOr, std::uint8_t, std::uint8_t>(x_moves, y_moves);
  return typed_pick<LogicalXor, std::uint8_t, std::uint8_t>(x_moves, y_moves);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(arithmetic_line_of);
HWY_EXPORT(comparison_line_of);

}  // namespace

bool has_typed_lines(DType type) {
  switch (type) {
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64:
    case DType::f64:
      return true;
    default:
      return false;
  }
}

BinaryLine typed_arithmetic_line(Arithmetic kind, DType type, bool x_moves, bool y_moves) {
  return HWY_DYNAMIC_DISPATCH(arithmetic_line_of)(kind, type, x_moves, y_moves);
}

BinaryLine typed_comparison_line(std::string_view op, DType type, bool x_moves, bool y_moves) {
  return HWY_DYNAMIC_DISPATCH(comparison_line_of)(op, type, x_moves, y_moves);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
