#include "train/data/element_conversion.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/numbers/half.h"

namespace tessera::train {
namespace {

template <typename T>
constexpr bool is_half = std::is_same_v<T, f16_t> || std::is_same_v<T, bf16_t>;
template <typename T>
constexpr bool is_real = is_half<T> || std::is_floating_point_v<T>;

template <typename T>
auto number(T value) {
  if constexpr (is_half<T>) return base::to_float(value);
  else return value;
}

template <typename To>
bool convert_to_real(auto value, To& to) {
  if constexpr (std::is_same_v<To, f16_t>) to = base::to_f16(static_cast<double>(value));
  else if constexpr (std::is_same_v<To, bf16_t>) to = base::to_bf16(static_cast<double>(value));
  else to = static_cast<To>(value);
  if constexpr (std::is_floating_point_v<decltype(value)>) return std::isfinite(number(to)) || !std::isfinite(value);
  else return std::isfinite(number(to));
}

template <typename To>
bool convert_to_integer(auto value, To& to) {
  using From = decltype(value);
  if constexpr (std::is_floating_point_v<From>) {
    // The bounds are powers of two, so they are exact.
    const From least = static_cast<From>(std::numeric_limits<To>::min());
    const From beyond = std::ldexp(From(1), std::numeric_limits<To>::digits);
    if (!(value >= least && value < beyond) || value != std::trunc(value)) return false;
  } else if constexpr (!std::is_same_v<From, bool>) {
    if (!std::in_range<To>(value)) return false;
  }
  to = static_cast<To>(value);
  return true;
}

template <typename From, typename To>
bool convert_one(From from, To& to) {
  const auto value = number(from);
  if constexpr (std::is_same_v<To, bool>) {
    to = value != 0;
    return value == 0 || value == 1;
  } else if constexpr (is_real<To>) {
    return convert_to_real(value, to);
  } else {
    return convert_to_integer(value, to);
  }
}

template <typename From, typename To>
std::int64_t convert_all(const std::byte* in, std::byte* out, std::int64_t count, bool scales_bytes) {
  const auto* from = reinterpret_cast<const From*>(in);
  auto* to = reinterpret_cast<To*>(out);
  if constexpr (std::is_same_v<From, std::uint8_t> && is_real<To>) {
    if (scales_bytes) {
      constexpr float kScale = 1.0f / 255;
      for (std::int64_t i = 0; i < count; ++i) convert_to_real(static_cast<float>(from[i]) * kScale, to[i]);
      return -1;
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (!convert_one(from[i], to[i])) [[unlikely]]
      return i;
  }
  return -1;
}

// Calls use(T()) with the C++ type of the elements; does nothing for types without a conversion.
template <typename Use>
void with_type(DType type, Use use) {
  switch (type) {
    case DType::f32:
      return use(float());
    case DType::f64:
      return use(double());
    case DType::f16:
      return use(f16_t());
    case DType::bf16:
      return use(bf16_t());
    case DType::i8:
      return use(std::int8_t());
    case DType::i16:
      return use(std::int16_t());
    case DType::i32:
      return use(std::int32_t());
    case DType::i64:
      return use(std::int64_t());
    case DType::u8:
      return use(std::uint8_t());
    case DType::u16:
      return use(std::uint16_t());
    case DType::u32:
      return use(std::uint32_t());
    case DType::u64:
      return use(std::uint64_t());
    case DType::boolean:
      return use(bool());
    default:
      return;
  }
}

}  // namespace

bool is_convertible(DType type) {
  bool known = false;
  with_type(type, [&](auto) { known = true; });
  return known;
}

std::int64_t convert_elements(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count,
                              bool scales_bytes) {
  std::int64_t fault = -1;
  with_type(from, [&]<typename From>(From) {
    with_type(to, [&]<typename To>(To) { fault = convert_all<From, To>(in, out, count, scales_bytes); });
  });
  return fault;
}

std::string element_text(DType type, const std::byte* elements, std::int64_t place) {
  std::string text;
  with_type(type,
            [&]<typename T>(T) { text = fmt::format("{}", number(reinterpret_cast<const T*>(elements)[place])); });
  return text;
}

Tensor converted_tensor(const Tensor& tensor, DType to, bool scales_bytes, const std::string& what) {
  if (tensor.dtype() == to) return tensor;
  require(is_convertible(tensor.dtype()) && is_convertible(to), ErrorKind::invalid_argument, "{} is {}, expected {}",
          what, name_of(tensor.dtype()), name_of(to));
  Tensor result(to, tensor.shape());
  const auto* from = static_cast<const std::byte*>(tensor.raw());
  const std::int64_t fault = convert_elements(tensor.dtype(), from, to, static_cast<std::byte*>(result.mutable_raw()),
                                              tensor.elements(), scales_bytes);
  require(fault < 0, ErrorKind::invalid_argument, "{} is {} and holds {}, which {} cannot hold", what,
          name_of(tensor.dtype()), fault < 0 ? "" : element_text(tensor.dtype(), from, fault), name_of(to));
  return result;
}

}  // namespace tessera::train
