#include "backends/host/numeric.h"

#include <cstring>

#include "base/numbers/half.h"

namespace tessera::backends::host {
namespace {

template <typename Storage, typename T>
void read_plain(const Tensor& tensor, std::vector<T>& out) {
  const Storage* data = tensor.data<Storage>();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = convert<T>(data[i]);
}

unsigned packed_bits(const void* data, std::int64_t i, int bits) {
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  const int per_byte = 8 / bits;
  return (bytes[i / per_byte] >> (i % per_byte * bits)) & ((1u << bits) - 1);
}

void set_packed_bits(void* data, std::int64_t i, int bits, unsigned value) {
  auto* bytes = static_cast<std::uint8_t*>(data);
  const int per_byte = 8 / bits;
  const int shift = static_cast<int>(i % per_byte) * bits;
  const unsigned mask = ((1u << bits) - 1) << shift;
  bytes[i / per_byte] = static_cast<std::uint8_t>((bytes[i / per_byte] & ~mask) | ((value << shift) & mask));
}

double small_value(DType type, unsigned bits) {
  const int width = bits_of(type);
  if (is_float(type)) return base::small_float_to_float(type, static_cast<std::uint8_t>(bits));
  if (is_signed_integer(type) && (bits >> (width - 1)) != 0)
    return static_cast<double>(bits) - static_cast<double>(1 << width);
  return bits;
}

template <typename Storage, typename T>
void write_plain(std::span<const T> values, Tensor& tensor) {
  Storage* data = tensor.mutable_data<Storage>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Other integers wrap; floats are converted through 64 bits, so that they saturate at 64 bits and wrap below, like
    // a C cast.
    if constexpr (std::is_integral_v<Storage> && std::is_floating_point_v<T>) {
      data[i] = static_cast<Storage>(std::is_same_v<Storage, std::uint64_t>
                                         ? convert<std::uint64_t>(values[i])
                                         : static_cast<std::uint64_t>(convert<std::int64_t>(values[i])));
    } else if constexpr (is_complex_type<Storage>::value) {
      data[i] = Storage(convert<std::complex<double>>(values[i]));
    } else {
      data[i] = convert<Storage>(values[i]);
    }
  }
}

}  // namespace

template <typename T>
std::vector<T> read(const Tensor& tensor) {
  std::vector<T> out = transient_vector<T>(tensor.elements());
  switch (tensor.dtype()) {
    case DType::f32:
      read_plain<float>(tensor, out);
      break;
    case DType::f64:
      read_plain<double>(tensor, out);
      break;
    case DType::i8:
      read_plain<std::int8_t>(tensor, out);
      break;
    case DType::i16:
      read_plain<std::int16_t>(tensor, out);
      break;
    case DType::i32:
      read_plain<std::int32_t>(tensor, out);
      break;
    case DType::i64:
      read_plain<std::int64_t>(tensor, out);
      break;
    case DType::u8:
      read_plain<std::uint8_t>(tensor, out);
      break;
    case DType::u16:
      read_plain<std::uint16_t>(tensor, out);
      break;
    case DType::u32:
      read_plain<std::uint32_t>(tensor, out);
      break;
    case DType::u64:
      read_plain<std::uint64_t>(tensor, out);
      break;
    case DType::boolean:
      read_plain<bool>(tensor, out);
      break;
    case DType::c64:
      read_plain<std::complex<float>>(tensor, out);
      break;
    case DType::c128:
      read_plain<std::complex<double>>(tensor, out);
      break;
    case DType::f16:
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = convert<T>(static_cast<double>(base::to_float(tensor.data<f16_t>()[i])));
      break;
    case DType::bf16:
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = convert<T>(static_cast<double>(base::to_float(tensor.data<bf16_t>()[i])));
      break;
    case DType::string:
    case DType::undefined:
      fail(ErrorKind::unsupported, "no arithmetic on elements of type {}", name_of(tensor.dtype()));
    default: {
      const int bits = bits_of(tensor.dtype());
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = convert<T>(small_value(tensor.dtype(), packed_bits(tensor.raw(), static_cast<std::int64_t>(i), bits)));
      }
    }
  }
  return out;
}

template <typename T>
void write(std::span<const T> values, Tensor& tensor) {
  require(static_cast<std::int64_t>(values.size()) == tensor.elements(), ErrorKind::invalid_argument,
          "{} values for shape {}", values.size(), to_string(tensor.shape()));
  switch (tensor.dtype()) {
    case DType::f32:
      write_plain<float>(values, tensor);
      break;
    case DType::f64:
      write_plain<double>(values, tensor);
      break;
    case DType::i8:
      write_plain<std::int8_t>(values, tensor);
      break;
    case DType::i16:
      write_plain<std::int16_t>(values, tensor);
      break;
    case DType::i32:
      write_plain<std::int32_t>(values, tensor);
      break;
    case DType::i64:
      write_plain<std::int64_t>(values, tensor);
      break;
    case DType::u8:
      write_plain<std::uint8_t>(values, tensor);
      break;
    case DType::u16:
      write_plain<std::uint16_t>(values, tensor);
      break;
    case DType::u32:
      write_plain<std::uint32_t>(values, tensor);
      break;
    case DType::u64:
      write_plain<std::uint64_t>(values, tensor);
      break;
    case DType::c64:
      write_plain<std::complex<float>>(values, tensor);
      break;
    case DType::c128:
      write_plain<std::complex<double>>(values, tensor);
      break;
    case DType::boolean:
      for (std::size_t i = 0; i < values.size(); ++i) tensor.mutable_data<bool>()[i] = values[i] != T{};
      break;
    case DType::f16:
      for (std::size_t i = 0; i < values.size(); ++i)
        tensor.mutable_data<f16_t>()[i] = base::to_f16(convert<double>(values[i]));
      break;
    case DType::bf16:
      for (std::size_t i = 0; i < values.size(); ++i)
        tensor.mutable_data<bf16_t>()[i] = base::to_bf16(convert<double>(values[i]));
      break;
    case DType::string:
    case DType::undefined:
      fail(ErrorKind::unsupported, "no arithmetic on elements of type {}", name_of(tensor.dtype()));
    default: {
      const DType type = tensor.dtype();
      const int bits = bits_of(type);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const unsigned pattern = is_float(type)
                                     ? base::float_to_small_float(type, static_cast<float>(convert<double>(values[i])))
                                     : static_cast<unsigned>(convert<std::int64_t>(values[i]));
        set_packed_bits(tensor.mutable_raw(), static_cast<std::int64_t>(i), bits, pattern);
      }
    }
  }
}

template std::vector<double> read<double>(const Tensor&);
template std::vector<std::int64_t> read<std::int64_t>(const Tensor&);
template std::vector<std::uint64_t> read<std::uint64_t>(const Tensor&);
template std::vector<std::complex<double>> read<std::complex<double>>(const Tensor&);
template void write<double>(std::span<const double>, Tensor&);
template void write<std::int64_t>(std::span<const std::int64_t>, Tensor&);
template void write<std::uint64_t>(std::span<const std::uint64_t>, Tensor&);
template void write<std::complex<double>>(std::span<const std::complex<double>>, Tensor&);

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    // Only a tensor without elements can overflow here, and its strides are not used.
    if (__builtin_mul_overflow(step, shape[i], &step)) step = 0;
  }
  return strides;
}

std::vector<std::int64_t> broadcast_strides(const Shape& input, const Shape& output) {
  const std::vector<std::int64_t> own = strides_of(input);
  std::vector<std::int64_t> strides(output.size(), 0);
  const std::size_t offset = output.size() - input.size();
  for (std::size_t i = 0; i < input.size(); ++i) strides[offset + i] = input[i] == 1 ? 0 : own[i];
  return strides;
}

bool advance(std::vector<std::int64_t>& index, const Shape& shape) {
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (++index[i] < shape[i]) return true;
    index[i] = 0;
  }
  return false;
}

void copy_element(const Tensor& source, std::int64_t from, Tensor& target, std::int64_t to) {
  if (source.dtype() == DType::string) {
    target.mutable_data<std::string>()[to] = source.data<std::string>()[from];
    return;
  }
  const int bits = bits_of(source.dtype());
  if (bits < 8) {
    set_packed_bits(target.mutable_raw(), to, bits, packed_bits(source.raw(), from, bits));
    return;
  }
  const std::size_t size = static_cast<std::size_t>(bits / 8);
  std::memcpy(static_cast<std::byte*>(target.mutable_raw()) + static_cast<std::size_t>(to) * size,
              static_cast<const std::byte*>(source.raw()) + static_cast<std::size_t>(from) * size, size);
}

}  // namespace tessera::backends::host
