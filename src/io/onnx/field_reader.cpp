#include "io/onnx/field_reader.h"

#include "base/error.h"

namespace tessera::io {

WireField FieldReader::next() {
  const std::size_t start = position_;
  const std::uint64_t tag = read_varint();
  WireField field{tag >> 3, static_cast<WireType>(tag & 7), {}, {}};
  require(field.number != 0 && field.number < (std::uint64_t{1} << 29), ErrorKind::invalid_model,
          "not an ONNX model: no valid field at byte {}", offset_ + start);
  switch (field.type) {
    case varint:
      read_varint();
      break;
    case fixed64:
      skip(8);
      break;
    case fixed32:
      skip(4);
      break;
    case length_delimited: {
      const std::uint64_t length = read_varint();
      const std::size_t payload = position_;
      skip(length);
      field.payload = bytes_.subspan(payload, static_cast<std::size_t>(length));
      break;
    }
    default:
      fail(ErrorKind::invalid_model, "not an ONNX model: no valid field at byte {}", offset_ + start);
  }
  field.whole = bytes_.subspan(start, position_ - start);
  return field;
}

std::uint64_t FieldReader::read_varint() {
  const std::size_t start = position_;
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    require(position_ < bytes_.size(), ErrorKind::invalid_model,
            "the file is truncated: a number at byte {} has no end", offset_ + start);
    const auto byte = static_cast<std::uint64_t>(bytes_[position_++]);
    value |= (byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  fail(ErrorKind::invalid_model, "not an ONNX model: a number at byte {} is too long", offset_ + start);
}

void FieldReader::skip(std::uint64_t length) {
  const std::size_t left = bytes_.size() - position_;
  require(length <= left, ErrorKind::invalid_model,
          "the file is truncated: a field at byte {} has {} bytes, but {} are left", offset_ + position_, length, left);
  position_ += static_cast<std::size_t>(length);
}

}  // namespace tessera::io
