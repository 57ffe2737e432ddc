#include "io/npy_raw.h"

#include <cstring>

#include "base/error.h"

namespace tessera::io {

std::string_view ml_dtypes_name(DType type) {
  struct Row {
    DType type;
    std::string_view name;
  };
  static constexpr Row rows[] = {
      {DType::bf16, "bfloat16"},
      {DType::f8e4m3fn, "float8_e4m3fn"},
      {DType::f8e4m3fnuz, "float8_e4m3fnuz"},
      {DType::f8e5m2, "float8_e5m2"},
      {DType::f8e5m2fnuz, "float8_e5m2fnuz"},
      {DType::f8e8m0, "float8_e8m0fnu"},
      {DType::f4e2m1, "float4_e2m1fn"},
      {DType::i4, "int4"},
      {DType::u4, "uint4"},
      {DType::i2, "int2"},
      {DType::u2, "uint2"},
  };
  for (const Row& row : rows) {
    if (row.type == type) return row.name;
  }
  return {};
}

Tensor from_raw_bytes(const Tensor& bytes, DType type) {
  const int bits = bits_of(type);
  Tensor result(type, bytes.shape());
  const auto* from = static_cast<const std::uint8_t*>(bytes.raw());
  auto* to = static_cast<std::uint8_t*>(result.mutable_raw());
  std::memset(to, 0, static_cast<std::size_t>(result.bytes()));
  for (std::int64_t i = 0; i < bytes.elements(); ++i) {
    const unsigned value = from[i] & ((1U << bits) - 1);
    const bool negative = is_signed_integer(type) && (value >> (bits - 1)) != 0;
    const unsigned extended = negative ? (value | 0xFFU << bits) & 0xFF : value;
    require(from[i] == value || from[i] == extended, ErrorKind::invalid_argument,
            "raw byte {:#04x} at element {} is no value of {}", from[i], i, name_of(type));
    to[i * bits / 8] = static_cast<std::uint8_t>(to[i * bits / 8] | value << (i * bits % 8));
  }
  return result;
}

Tensor to_raw_bytes(const Tensor& tensor) {
  const DType type = tensor.dtype();
  const int bits = bits_of(type);
  if (!is_raw_type(type) || bits >= 8) return tensor;
  Tensor result(DType::u8, tensor.shape());
  const auto* packed = static_cast<const std::uint8_t*>(tensor.raw());
  auto* to = result.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    to[i] = static_cast<std::uint8_t>(packed[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1));
  }
  return result;
}

}  // namespace tessera::io
