// Tensors as bytes: decode_elements and what belongs to it.
#include <cstring>
#include <limits>

#include "base/text.h"
#include "serve/protocol/datatype.h"
#include "serve/protocol/failure.h"
#include "serve/protocol/request_decoder.h"

namespace tessera::serve {
namespace {

constexpr std::size_t kMostDimensions = 32;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kTensorAlignment = 64;

[[noreturn]] void refuse(const std::string& message) {
  throw Failure(Reason::bad_request, message);
}

// Little-endian, as x86-64 is.
std::uint32_t length_at(const char* bytes) {
  std::uint32_t length = 0;
  std::memcpy(&length, bytes, kLengthBytes);
  return length;
}

bool is_aligned(const void* bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes) % kTensorAlignment == 0;
}

Tensor decode_strings(const std::string& name, const Shape& shape, std::int64_t elements, std::string_view bytes) {
  // Each element takes four bytes at least, so the number is bounded before anything is allocated.
  if (elements > static_cast<std::int64_t>(bytes.size() / kLengthBytes))
    refuse(fmt::format("input '{}' has {} bytes, too few for {} elements of BYTES", base::shown(name), bytes.size(),
                       elements));
  Tensor tensor(DType::string, shape);
  for (std::string& element : tensor.mutable_values<std::string>()) {
    if (bytes.size() < kLengthBytes) refuse(fmt::format("input '{}' ends within an element", base::shown(name)));
    const std::uint32_t length = length_at(bytes.data());
    bytes.remove_prefix(kLengthBytes);
    if (length > bytes.size()) refuse(fmt::format("input '{}' ends within an element", base::shown(name)));
    element.assign(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  if (!bytes.empty())
    refuse(fmt::format("input '{}' has {} bytes after its last element", base::shown(name), bytes.size()));
  return tensor;
}

}  // namespace

DType checked_datatype(const std::string& name, std::string_view datatype) {
  const std::optional<DType> type = datatype_from_name(datatype);
  if (!type)
    refuse(fmt::format("input '{}' has the unknown datatype '{}', expected FP32, INT64, BYTES …", base::shown(name),
                       base::shown(datatype)));
  return *type;
}

std::int64_t checked_elements(const std::string& name, const Shape& shape) {
  if (shape.size() > kMostDimensions)
    refuse(fmt::format("input '{}' has {} dimensions, at most {} are possible", base::shown(name), shape.size(),
                       kMostDimensions));
  std::int64_t elements = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) refuse(fmt::format("input '{}' has the dimension {}", base::shown(name), size));
    empty = empty || size == 0;
  }
  if (empty) return 0;
  for (const std::int64_t size : shape) {
    if (elements > std::numeric_limits<std::int64_t>::max() / 64 / size)
      refuse(fmt::format("input '{}' has more elements than can be counted", base::shown(name)));
    elements *= size;
  }
  return elements;
}

Tensor decode_elements(const std::string& name, DType dtype, const Shape& shape, std::string_view bytes,
                       const std::shared_ptr<const void>& owner) {
  const std::int64_t elements = checked_elements(name, shape);
  if (dtype == DType::string) return decode_strings(name, shape, elements, bytes);
  const std::int64_t expected = elements * bits_of(dtype) / 8;
  if (expected != static_cast<std::int64_t>(bytes.size()))
    refuse(fmt::format("input '{}' has {} bytes, expected {} for {} {}", base::shown(name), bytes.size(), expected,
                       datatype_name(dtype), to_string(shape)));
  // Booleans are changed below, which a view must not be.
  if (owner && !bytes.empty() && dtype != DType::boolean && is_aligned(bytes.data()))
    return Tensor(dtype, shape, const_cast<char*>(bytes.data()), owner);
  Tensor tensor(dtype, shape);
  if (bytes.empty()) return tensor;
  std::memcpy(tensor.mutable_raw(), bytes.data(), bytes.size());
  if (dtype == DType::boolean) {
    // Any byte but 0 means true; as a C++ bool it must be 1.
    auto* const values = static_cast<unsigned char*>(tensor.mutable_raw());
    for (std::int64_t i = 0; i < elements; ++i) values[i] = values[i] != 0;
  }
  return tensor;
}

std::int64_t encoded_bytes(const Tensor& tensor) {
  if (tensor.dtype() != DType::string) return tensor.bytes();
  std::int64_t bytes = 0;
  for (const std::string& element : tensor.values<std::string>())
    bytes += static_cast<std::int64_t>(kLengthBytes + element.size());
  return bytes;
}

void append_elements(const Tensor& tensor, std::string& bytes) {
  if (tensor.dtype() != DType::string) {
    if (tensor.bytes() > 0)
      bytes.append(static_cast<const char*>(tensor.raw()), static_cast<std::size_t>(tensor.bytes()));
    return;
  }
  for (const std::string& element : tensor.values<std::string>()) {
    const auto length = static_cast<std::uint32_t>(element.size());
    bytes.append(reinterpret_cast<const char*>(&length), kLengthBytes);
    bytes.append(element);
  }
}

}  // namespace tessera::serve
