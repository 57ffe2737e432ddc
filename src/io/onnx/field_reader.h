// The fields of one serialised message (protobuf encoding, https://protobuf.dev/programming-guides/encoding/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::io {

enum WireType : std::uint64_t {
  varint = 0,
  fixed64 = 1,
  length_delimited = 2,
  start_group = 3,
  end_group = 4,
  fixed32 = 5
};

struct WireField {
  std::uint64_t number = 0;
  WireType type = varint;
  std::span<const std::byte> whole;    // tag and payload
  std::span<const std::byte> payload;  // of a length-delimited field
};

class FieldReader {
 public:
  // `offset` is where `bytes` start in the file, for error messages.
  FieldReader(std::span<const std::byte> bytes, std::size_t offset) : bytes_(bytes), offset_(offset) {}

  bool done() const { return position_ == bytes_.size(); }
  std::size_t offset_of(std::span<const std::byte> part) const {
    return offset_ + static_cast<std::size_t>(part.data() - bytes_.data());
  }
  // Throws Error(invalid_model) that says at which byte the encoding breaks; groups count as broken.
  WireField next();

 private:
  std::uint64_t read_varint();
  void skip(std::uint64_t length);

  std::span<const std::byte> bytes_;
  std::size_t offset_;
  std::size_t position_ = 0;
};

}  // namespace tessera::io
