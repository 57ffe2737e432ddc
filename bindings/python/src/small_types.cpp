#include "small_types.h"

#include <cstring>

namespace tessera::python {

Tensor packed(const Tensor& bytes, DType dtype) {
  const int bits = bits_of(dtype), per_byte = 8 / bits;
  const unsigned mask = (1u << bits) - 1;
  Tensor result(dtype, bytes.shape());
  auto* out = static_cast<std::uint8_t*>(result.mutable_raw());
  std::memset(out, 0, static_cast<std::size_t>(result.bytes()));
  const auto* in = bytes.data<std::uint8_t>();
  for (std::int64_t i = 0; i < bytes.elements(); ++i)
    out[i / per_byte] |= static_cast<std::uint8_t>((in[i] & mask) << (i % per_byte * bits));
  return result;
}

Tensor unpacked(const Tensor& tensor) {
  const int bits = bits_of(tensor.dtype()), per_byte = 8 / bits;
  const unsigned mask = (1u << bits) - 1, sign = is_signed_integer(tensor.dtype()) ? 1u << (bits - 1) : 0;
  Tensor result(DType::u8, tensor.shape());
  auto* out = result.mutable_data<std::uint8_t>();
  const auto* in = static_cast<const std::uint8_t*>(tensor.raw());
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const unsigned value = static_cast<unsigned>(in[i / per_byte] >> (i % per_byte * bits)) & mask;
    out[i] = static_cast<std::uint8_t>((value & sign) != 0 ? value | ~mask : value);
  }
  return result;
}

}  // namespace tessera::python
