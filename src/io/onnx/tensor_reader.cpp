#include "io/onnx/tensor_reader.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <complex>
#include <cstring>

#include "base/error.h"
#include "base/file_pages.h"
#include "base/numbers/checked.h"
#include "ops/core/shape_arguments.h"

namespace tessera::io {
namespace {

using tessera_onnx::SparseTensorProto;
using tessera_onnx::TensorProto;

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian and used as it is");

constexpr std::int32_t kExternal = 1;
// The least bytes of a deferred copy, and the bytes hashed at each of its ends.
constexpr std::size_t kLeastDeferred = 16 * 1024, kHashed = 256;
constexpr std::size_t kMostCompared = 16;

std::size_t alignment_of(DType type) {
  const int bits = bits_of(type);
  if (is_complex(type)) return static_cast<std::size_t>(bits) / 16;
  return bits <= 8 ? 1 : static_cast<std::size_t>(bits) / 8;
}

void check_length(std::int64_t found, std::int64_t expected, std::string_view what, DType dtype, const Shape& shape) {
  require(found == expected, ErrorKind::invalid_model, "{} has {} {}, but {}{} needs {}", "the tensor", found, what,
          name_of(dtype), to_string(shape), expected);
}

// Bytes other than 0 and 1 are invalid values of bool.
bool needs_cleaning(DType dtype, std::span<const std::byte> bytes) {
  if (dtype != DType::boolean) return false;
  for (std::byte byte : bytes) {
    if (byte > std::byte{1}) return true;
  }
  return false;
}

template <typename T, typename List>
Tensor from_list(DType dtype, Shape shape, const List& list, std::int64_t expected) {
  check_length(list.size(), expected, "values", dtype, shape);
  Tensor tensor(dtype, std::move(shape));
  T* out = static_cast<T*>(tensor.mutable_raw());
  for (const auto value : list) *out++ = static_cast<T>(value);
  return tensor;
}

Tensor from_strings(const TensorProto& proto, Shape shape) {
  check_length(proto.string_data_size(), element_count(shape), "values", DType::string, shape);
  Tensor tensor(DType::string, std::move(shape));
  std::copy(proto.string_data().begin(), proto.string_data().end(), tensor.mutable_data<std::string>());
  return tensor;
}

// Whether a typed field for other element types has contents.
bool data_in_other_fields(const TensorProto& proto, DType dtype) {
  const bool floats = dtype == DType::f32 || dtype == DType::c64, doubles = dtype == DType::f64 || dtype == DType::c128;
  const bool long_unsigned = dtype == DType::u64 || dtype == DType::u32;
  const bool others = !floats && !doubles && !long_unsigned && dtype != DType::i64 && dtype != DType::string;
  return (!floats && proto.float_data_size() > 0) || (!doubles && proto.double_data_size() > 0) ||
         (dtype != DType::i64 && proto.int64_data_size() > 0) || (!long_unsigned && proto.uint64_data_size() > 0) ||
         (dtype != DType::string && proto.string_data_size() > 0) ||
         ((!others || dtype == DType::undefined) && proto.int32_data_size() > 0);
}

// The typed fields: which one holds which element type is fixed by the format.
Tensor from_typed_fields(const TensorProto& proto, DType dtype, Shape shape) {
  const std::int64_t count = element_count(shape);
  switch (dtype) {
    case DType::f32:
      return from_list<float>(dtype, std::move(shape), proto.float_data(), count);
    case DType::c64:
      return from_list<float>(dtype, std::move(shape), proto.float_data(), base::checked_multiply(count, 2));
    case DType::f64:
      return from_list<double>(dtype, std::move(shape), proto.double_data(), count);
    case DType::c128:
      return from_list<double>(dtype, std::move(shape), proto.double_data(), base::checked_multiply(count, 2));
    case DType::i64:
      return from_list<std::int64_t>(dtype, std::move(shape), proto.int64_data(), count);
    case DType::u64:
      return from_list<std::uint64_t>(dtype, std::move(shape), proto.uint64_data(), count);
    case DType::u32:
      return from_list<std::uint32_t>(dtype, std::move(shape), proto.uint64_data(), count);
    case DType::i32:
      return from_list<std::int32_t>(dtype, std::move(shape), proto.int32_data(), count);
    case DType::i16:
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      return from_list<std::uint16_t>(dtype, std::move(shape), proto.int32_data(), count);
    case DType::boolean:
      return from_list<bool>(dtype, std::move(shape), proto.int32_data(), count);
    case DType::string:
      return from_strings(proto, std::move(shape));
    default: {  // 8 bits an element, or several elements packed in the 8 low bits
      const std::int64_t bytes = byte_count(dtype, shape);
      return from_list<std::uint8_t>(dtype, std::move(shape), proto.int32_data(), bytes);
    }
  }
}

std::int64_t parse_number(const std::string& key, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(code == std::errc() && end == text.data() + text.size() && value >= 0, ErrorKind::invalid_model,
          "external data: {} '{}' is not a number of bytes", key, shown(text));
  return value;
}

}  // namespace

DType to_dtype(std::int32_t onnx_type) {
  require(onnx_type != 0, ErrorKind::invalid_model, "the element type is undefined");
  require(onnx_type > 0 && onnx_type < kDTypeCount, ErrorKind::unsupported, "unknown element type {}", onnx_type);
  return static_cast<DType>(onnx_type);
}

DType to_key_type(std::int32_t onnx_type) {
  const DType key = to_dtype(onnx_type);
  require(key == DType::i64 || key == DType::string, ErrorKind::unsupported,
          "maps with keys of {}; i64 and string are supported", name_of(key));
  return key;
}

Shape to_shape(const google::protobuf::RepeatedField<std::int64_t>& dims) {
  require(dims.size() <= ops::max_rank, ErrorKind::unsupported, "a tensor of rank {}; at most {} is supported",
          dims.size(), ops::max_rank);
  Shape shape(dims.begin(), dims.end());
  for (std::int64_t dim : shape)
    require(dim >= 0, ErrorKind::invalid_model, "negative dimension {} in shape {}", dim, to_string(shape));
  return shape;
}

// Copies the bytes if `owner` is null.
Tensor TensorReader::from_bytes(DType dtype, Shape shape, std::span<const std::byte> bytes,
                                const std::shared_ptr<const void>& owner) {
  check_length(static_cast<std::int64_t>(bytes.size()), byte_count(dtype, shape), "bytes of raw data", dtype, shape);
  const bool clean = needs_cleaning(dtype, bytes);
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment_of(dtype) == 0;
  // A view is only ever read: constants are immutable.
  if (owner != nullptr && aligned && !clean && !bytes.empty())
    return Tensor(dtype, std::move(shape), const_cast<std::byte*>(bytes.data()), owner);
  if (owner != nullptr && !clean && bytes.size() >= kLeastDeferred)
    return deferred_copy(dtype, std::move(shape), bytes, owner);
  Tensor tensor(dtype, std::move(shape));
  if (!bytes.empty()) std::memcpy(tensor.mutable_raw(), bytes.data(), bytes.size());
  if (clean) {
    for (auto* byte = static_cast<std::uint8_t*>(tensor.mutable_raw());
         byte != static_cast<std::uint8_t*>(tensor.mutable_raw()) + bytes.size(); ++byte)
      *byte = *byte != 0;
  }
  return tensor;
}

// Tied weights occur once per use in a file; deferred copies of them can only be compared here, before they are made.
Tensor TensorReader::deferred_copy(DType dtype, Shape shape, std::span<const std::byte> bytes,
                                   const std::shared_ptr<const void>& owner) {
  const auto hash_of = [](std::span<const std::byte> part) {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(part.data()), part.size()});
  };
  const std::size_t hash = bytes.size() ^ hash_of(bytes.first(kHashed)) ^ (hash_of(bytes.last(kHashed)) << 1);
  const auto [first, last] = copies_.equal_range(hash);
  // A file with many data that differ only between their ends would take long to compare, so then none are compared.
  const auto end = copies_.count(hash) > kMostCompared ? first : last;
  const auto found = std::find_if(first, end, [&](const auto& entry) {
    return entry.second.second.dtype() == dtype && entry.second.first.size() == bytes.size() &&
           (entry.second.first.data() == bytes.data() ||
            std::memcmp(entry.second.first.data(), bytes.data(), bytes.size()) == 0);
  });
  if (found != end) return found->second.second.reshaped(std::move(shape));
  Tensor tensor = Tensor::deferred(dtype, std::move(shape), [bytes, owner](void* to) {
    std::memcpy(to, bytes.data(), bytes.size());
    base::release_file_pages(bytes.data(), bytes.size());
  });
  copies_.emplace(hash, std::pair(bytes, tensor));
  return tensor;
}

Tensor TensorReader::read(const TensorProto& proto, std::optional<std::span<const std::byte>> raw) {
  try {
    const DType dtype = to_dtype(proto.data_type());
    Shape shape = to_shape(proto.dims());
    require(!proto.has_segment(), ErrorKind::unsupported, "tensors in segments are not supported");
    require(proto.data_location() == 0 || proto.data_location() == kExternal, ErrorKind::invalid_model,
            "unknown data location {}", proto.data_location());
    if (proto.data_location() == kExternal) return from_external(proto, dtype, std::move(shape));
    const bool has_raw = raw || proto.has_raw_data();
    const bool has_typed = data_in_other_fields(proto, DType::undefined);
    require(!has_raw || !has_typed, ErrorKind::invalid_model, "the tensor has raw data and typed data");
    require(has_raw || !data_in_other_fields(proto, dtype), ErrorKind::invalid_model,
            "the tensor has data in a field for other element types than {}", name_of(dtype));
    require(!has_raw || dtype != DType::string, ErrorKind::invalid_model, "a tensor of strings cannot have raw data");
    if (raw) return from_bytes(dtype, std::move(shape), *raw, owner_);
    if (has_raw) return from_bytes(dtype, std::move(shape), std::as_bytes(std::span(proto.raw_data())), nullptr);
    return from_typed_fields(proto, dtype, std::move(shape));
  } catch (Error& error) {
    if (!proto.name().empty()) error.add_context("tensor '" + shown(proto.name()) + "'");
    throw;
  }
}

Tensor TensorReader::from_external(const TensorProto& proto, DType dtype, Shape shape) {
  require(dtype != DType::string, ErrorKind::invalid_model, "a tensor of strings cannot have external data");
  std::map<std::string, std::string> entries;
  for (const auto& entry : proto.external_data()) {
    const std::string& key = entry.key();
    require(key == "location" || key == "offset" || key == "length" || key == "checksum", ErrorKind::invalid_model,
            "external data: unknown key '{}'", shown(key));
    require(entries.emplace(key, entry.value()).second, ErrorKind::invalid_model, "external data: '{}' is given twice",
            key);
  }
  require(entries.contains("location"), ErrorKind::invalid_model, "external data without a location");
  const External file = open_external(entries["location"]);
  const auto size = static_cast<std::int64_t>(file.bytes.size());
  const std::int64_t expected = byte_count(dtype, shape);
  const std::int64_t offset = entries.contains("offset") ? parse_number("offset", entries["offset"]) : 0;
  const std::int64_t length = entries.contains("length") ? parse_number("length", entries["length"]) : expected;
  require(offset <= size && length <= size - offset, ErrorKind::invalid_model,
          "external data: {} bytes at offset {} of '{}', which has {} bytes", length, offset,
          shown(entries["location"]), size);
  return from_bytes(dtype, std::move(shape),
                    file.bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(length)), file.owner);
}

TensorReader::External TensorReader::open_external(const std::string& location) {
  if (constants_) {
    require(location == kPackageConstants, ErrorKind::invalid_model,
            "external data '{}' in a package, whose data all lie in itself", shown(location));
    return {*constants_, owner_};
  }
  require(folder_.has_value(), ErrorKind::unsupported, "external data '{}', but the model was not read from a file",
          shown(location));
  try {
    std::shared_ptr<const MappedFile>& file = files_[location];
    if (file == nullptr) file = MappedFile::map(InputFile::open_below(*folder_, location));
    return {file->bytes(), file};
  } catch (Error& error) {
    error.add_context("its external data, which must lie in the model's folder");
    throw;
  }
}

Tensor TensorReader::read_sparse(const SparseTensorProto& proto) {
  const Tensor values = read(proto.values());
  const Tensor indices = read(proto.indices());
  Shape shape = to_shape(proto.dims());
  const auto rank = static_cast<std::int64_t>(shape.size());
  require(values.rank() == 1, ErrorKind::invalid_model, "sparse tensor: values of shape {}, expected rank 1",
          to_string(values.shape()));
  const std::int64_t count = values.elements();
  require(bits_of(values.dtype()) >= 8, ErrorKind::unsupported, "sparse tensors of {}", name_of(values.dtype()));
  const bool linear = indices.rank() == 1;
  require(indices.dtype() == DType::i64 && (indices.shape() == Shape{count} || indices.shape() == Shape{count, rank}),
          ErrorKind::invalid_model, "sparse tensor: indices {}{} do not fit {} values of rank {}",
          name_of(indices.dtype()), to_string(indices.shape()), count, rank);
  const std::int64_t bytes = byte_count(values.dtype(), shape);
  require(bytes <= dense_bytes_left_, ErrorKind::over_budget,
          "a sparse tensor of shape {} has {} bytes when dense, but of the limit {} are left", to_string(shape), bytes,
          dense_bytes_left_);
  dense_bytes_left_ -= bytes;
  Tensor dense(values.dtype(), shape);
  const auto size = static_cast<std::size_t>(bits_of(values.dtype()) / 8);
  if (bytes > 0) std::memset(dense.mutable_raw(), 0, static_cast<std::size_t>(bytes));
  const std::int64_t* index = indices.data<std::int64_t>();
  std::int64_t previous = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t position = 0;
    if (linear) {
      position = index[i];
    } else {
      for (std::int64_t axis = 0; axis < rank; ++axis) {
        const std::int64_t coordinate = index[i * rank + axis];
        require(coordinate >= 0 && coordinate < shape[static_cast<std::size_t>(axis)], ErrorKind::invalid_model,
                "sparse tensor: index {} on axis {} of shape {}", coordinate, axis, to_string(shape));
        position = position * shape[static_cast<std::size_t>(axis)] + coordinate;
      }
    }
    require(position >= 0 && position < dense.elements(), ErrorKind::invalid_model,
            "sparse tensor: index {} in shape {}", position, to_string(shape));
    require(position > previous, ErrorKind::invalid_model, "sparse tensor: index {} does not come after {}", position,
            previous);
    previous = position;
    std::memcpy(static_cast<std::byte*>(dense.mutable_raw()) + static_cast<std::size_t>(position) * size,
                static_cast<const std::byte*>(values.raw()) + static_cast<std::size_t>(i) * size, size);
  }
  return dense;
}

}  // namespace tessera::io
