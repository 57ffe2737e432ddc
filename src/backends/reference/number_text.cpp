#include "backends/reference/number_text.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/numbers/half.h"

namespace tessera::backends::reference {
namespace {

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n\r\f\v");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n\r\f\v") - first + 1);
}

// Removes a plus sign, which from_chars does not accept.
std::string_view without_plus(std::string_view text) {
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+';
  return plus ? text.substr(1) : text;
}

double rounded_to(double value, DType type) {
  switch (type) {
    case DType::f64:
      return value;
    case DType::f16:
      return base::to_float(base::to_f16(value));
    case DType::bf16:
      return base::to_float(base::to_bf16(value));
    case DType::f32:
      return static_cast<float>(value);
    default:
      return base::small_float_to_float(type, base::float_to_small_float(type, static_cast<float>(value)));
  }
}

// "d.ddde-NN" with the fewest digits that read back.
std::string shortest_scientific(double value, DType type) {
  char buffer[64];
  for (int precision = 0; precision <= 17; ++precision) {
    const auto end =
        std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific, precision).ptr;
    double back = 0;
    std::from_chars(buffer, end, back);
    if (rounded_to(back, type) == value || precision == 17) return std::string(buffer, end);
  }
  return {};
}

}  // namespace

std::string float_to_text(double value, DType type) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (value == 0) return std::signbit(value) ? "-0.0" : "0.0";
  std::string text = shortest_scientific(value, type);
  const double magnitude = std::fabs(value);
  if (magnitude < 1e-4 || magnitude >= 1e16) return text;
  // Place the digits around the decimal point.
  const std::size_t mark = text.find('e');
  int exponent = 0;
  const std::string_view power = without_plus(std::string_view(text).substr(mark + 1));
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  std::string digits;
  for (const char c : text.substr(0, mark)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  const std::string sign = value < 0 ? "-" : "";
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

double text_to_float(std::string_view text) {
  const std::string_view number = without_plus(trim(text));
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool complete = end == number.data() + number.size() && !number.empty();
  require(complete && error != std::errc::invalid_argument, ErrorKind::failed, "'{}' is not a number",
          text.substr(0, 64));
  if (error == std::errc::result_out_of_range) {
    // Too large or too small: the exponent's sign tells which.
    const std::size_t mark = number.find_first_of("eE");
    const bool small = mark != std::string_view::npos ? number[mark + 1] == '-' : number.find('.') <= 2;
    value = std::copysign(small ? 0.0 : std::numeric_limits<double>::infinity(), number[0] == '-' ? -1.0 : 1.0);
  }
  return value;
}

template <typename T>
T text_to_integer(std::string_view text) {
  const std::string_view number = without_plus(trim(text));
  T value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc() && end == number.data() + number.size()) return value;
  const double real = text_to_float(text);
  const double limit = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (std::isnan(real)) return 0;
  if (real >= limit) return std::numeric_limits<T>::max();
  if (real <= (std::numeric_limits<T>::is_signed ? -limit : 0.0)) return std::numeric_limits<T>::min();
  return static_cast<T>(real);
}

template std::int64_t text_to_integer<std::int64_t>(std::string_view);
template std::uint64_t text_to_integer<std::uint64_t>(std::string_view);

}  // namespace tessera::backends::reference
