// A stream of numbers and texts, little-endian, for the small sections of a package.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tessera/tensor.h"

namespace tessera::io {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they are");

inline std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw()), static_cast<std::size_t>(tensor.bytes())};
}

class ByteWriter {
 public:
  void u32(std::uint32_t value) { raw(std::as_bytes(std::span(&value, 1))); }
  void u64(std::uint64_t value) { raw(std::as_bytes(std::span(&value, 1))); }
  // Writes the length, then the bytes.
  void text(std::string_view value) {
    u32(static_cast<std::uint32_t>(value.size()));
    raw(std::as_bytes(std::span(value)));
  }
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  // Writes zeros up to that size.
  void pad_to(std::size_t size) { bytes_.resize(size); }
  std::size_t size() const { return bytes_.size(); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Throws Error(invalid_model) where the bytes end too early.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::uint32_t u32() { return number<std::uint32_t>(); }
  std::uint64_t u64() { return number<std::uint64_t>(); }
  std::string text() {
    const std::span<const std::byte> bytes = take(u32());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Reads the number of entries that follow, of at least `least_bytes` each.
  std::uint32_t count(std::size_t least_bytes) {
    const std::uint32_t entries = u32();
    require(entries <= rest_.size() / least_bytes, ErrorKind::invalid_model,
            "a list of {} entries does not fit in the {} bytes that are left", entries, rest_.size());
    return entries;
  }
  bool done() const { return rest_.empty(); }
  std::span<const std::byte> bytes(std::size_t count) { return take(count); }

 private:
  std::span<const std::byte> take(std::size_t bytes) {
    require(bytes <= rest_.size(), ErrorKind::invalid_model, "{} bytes are expected where {} are left", bytes,
            rest_.size());
    const std::span<const std::byte> taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::span<const std::byte> rest_;
};

}  // namespace tessera::io
