// Reading and writing tensors of any element type through one wide type: double (floats), int64 (signed integers) or
// uint64 (unsigned). Reference kernels compute in it and round once when they store.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "backends/transient_memory.h"
#include "base/error.h"
#include "tessera/tensor.h"

namespace tessera::backends::host {

template <typename T>
struct is_complex_type : std::false_type {};
template <typename T>
struct is_complex_type<std::complex<T>> : std::true_type {};

// Converts a scalar with a defined result for every value: floats outside an integer's range saturate, NaN becomes 0.
template <typename To, typename From>
To convert(From value) {
  if constexpr (is_complex_type<From>::value && !is_complex_type<To>::value) {
    return convert<To>(value.real());
  } else if constexpr (is_complex_type<To>::value) {
    if constexpr (is_complex_type<From>::value) return To(value);
    else return To(static_cast<double>(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(value)) return 0;
    if (value >= std::ldexp(1.0, std::numeric_limits<To>::digits)) return std::numeric_limits<To>::max();
    if (std::is_signed_v<To> && value < -std::ldexp(1.0, std::numeric_limits<To>::digits))
      return std::numeric_limits<To>::min();
    // Negative floats wrap in unsigned types, as every C compiler on this hardware does.
    return std::is_signed_v<To> || value >= 0 ? static_cast<To>(value) : static_cast<To>(convert<std::int64_t>(value));
  } else {
    return static_cast<To>(value);
  }
}

// All elements converted to T. T: double (any real type, bool as 0/1), int64_t / uint64_t (any integer type, bool, and
// floats truncated towards zero), std::complex<double> (complex, and real types with zero imaginary part).
// 4- and 2-bit types are unpacked. Throws Error(unsupported) for strings.
template <typename T>
std::vector<T> read(const Tensor& tensor);
extern template std::vector<double> read<double>(const Tensor&);
extern template std::vector<std::int64_t> read<std::int64_t>(const Tensor&);
extern template std::vector<std::uint64_t> read<std::uint64_t>(const Tensor&);
extern template std::vector<std::complex<double>> read<std::complex<double>>(const Tensor&);

// Stores values into `tensor`, element by element: floats round to nearest even, integers wrap modulo 2^bits (two's
// complement), bool is value != 0. The counts must agree.
template <typename T>
void write(std::span<const T> values, Tensor& tensor);
extern template void write<double>(std::span<const double>, Tensor&);
extern template void write<std::int64_t>(std::span<const std::int64_t>, Tensor&);
extern template void write<std::uint64_t>(std::span<const std::uint64_t>, Tensor&);
extern template void write<std::complex<double>>(std::span<const std::complex<double>>, Tensor&);
template <typename T>
void write(const std::vector<T>& values, Tensor& tensor) {
  write(std::span<const T>(values), tensor);
}

// Calls body with a value of the wide type of `dtype`: body(double{}), body(int64_t{}), body(uint64_t{}).
// bool counts as unsigned. Throws Error(unsupported) for other types.
template <typename Body>
void with_wide_type(DType dtype, Body body) {
  if (is_float(dtype)) body(double{});
  else if (is_signed_integer(dtype)) body(std::int64_t{});
  else if (is_unsigned_integer(dtype) || dtype == DType::boolean) body(std::uint64_t{});
  else fail(ErrorKind::unsupported, "no arithmetic on elements of type {}", name_of(dtype));
}

// Row-major strides in elements.
std::vector<std::int64_t> strides_of(const Shape& shape);
// Strides that read `input` as if broadcast to `output` (0 along repeated axes).
std::vector<std::int64_t> broadcast_strides(const Shape& input, const Shape& output);
// Advances a multi-index over `shape` in row-major order; returns false after the last.
bool advance(std::vector<std::int64_t>& index, const Shape& shape);

// Copies element `from` of `source` to element `to` of `target` (equal types, strings and sub-byte types included).
void copy_element(const Tensor& source, std::int64_t from, Tensor& target, std::int64_t to);

}  // namespace tessera::backends::host
