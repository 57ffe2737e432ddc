#include "io/onnx/wire.h"

#include <cstdint>
#include <limits>

#include "base/error.h"

namespace tessera::io {
namespace {

// Field numbers of onnx.proto on the path to the weights.
constexpr std::uint64_t kModelGraph = 7, kGraphInitializer = 5, kTensorRawData = 9;

enum WireType : std::uint64_t {
  varint = 0,
  fixed64 = 1,
  length_delimited = 2,
  start_group = 3,
  end_group = 4,
  fixed32 = 5
};

struct Field {
  std::uint64_t number = 0;
  WireType type = varint;
  std::span<const std::byte> whole;    // tag and payload
  std::span<const std::byte> payload;  // of a length-delimited field
};

// Reads the fields of one message (protobuf encoding, https://protobuf.dev/programming-guides/encoding/).
class FieldReader {
 public:
  // `offset` is where `bytes` start in the file, for error messages.
  FieldReader(std::span<const std::byte> bytes, std::size_t offset) : bytes_(bytes), offset_(offset) {}

  bool done() const { return position_ == bytes_.size(); }
  std::size_t offset_of(std::span<const std::byte> part) const {
    return offset_ + static_cast<std::size_t>(part.data() - bytes_.data());
  }

  Field next() {
    const std::size_t start = position_;
    const std::uint64_t tag = read_varint();
    Field field{tag >> 3, static_cast<WireType>(tag & 7), {}, {}};
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

 private:
  std::uint64_t read_varint() {
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

  void skip(std::uint64_t length) {
    const std::size_t left = bytes_.size() - position_;
    require(length <= left, ErrorKind::invalid_model,
            "the file is truncated: a field at byte {} has {} bytes, but {} are left", offset_ + position_, length,
            left);
    position_ += static_cast<std::size_t>(length);
  }

  std::span<const std::byte> bytes_;
  std::size_t offset_;
  std::size_t position_ = 0;
};

void append(std::string& out, std::span<const std::byte> bytes) {
  require(bytes.size() < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()) - out.size(),
          ErrorKind::over_budget, "the model has 2 GiB or more besides its initializers' raw data");
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void append_message(std::string& out, std::uint64_t number, const std::string& message) {
  auto append_varint = [&out](std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>((value & 0x7F) | 0x80));
    out.push_back(static_cast<char>(value));
  };
  append_varint((number << 3) | length_delimited);
  append_varint(message.size());
  append(out, std::as_bytes(std::span(message)));
}

std::string split_tensor(std::span<const std::byte> bytes, std::size_t offset,
                         std::optional<std::span<const std::byte>>& raw_data) {
  std::string rest;
  for (FieldReader reader(bytes, offset); !reader.done();) {
    const Field field = reader.next();
    if (field.number == kTensorRawData && field.type == length_delimited)
      raw_data = field.payload;  // the last one counts
    else
      append(rest, field.whole);
  }
  return rest;
}

std::string split_graph(std::span<const std::byte> bytes, std::size_t offset, SplitModel& split) {
  std::string rest;
  for (FieldReader reader(bytes, offset); !reader.done();) {
    const Field field = reader.next();
    if (field.number == kGraphInitializer && field.type == length_delimited) {
      append_message(rest, field.number,
                     split_tensor(field.payload, reader.offset_of(field.payload), split.raw_data.emplace_back()));
    } else {
      append(rest, field.whole);
    }
  }
  return rest;
}

}  // namespace

SplitModel split_model(std::span<const std::byte> bytes) {
  SplitModel split;
  for (FieldReader reader(bytes, 0); !reader.done();) {
    const Field field = reader.next();
    if (field.number == kModelGraph && field.type == length_delimited) {
      append_message(split.structure, field.number, split_graph(field.payload, reader.offset_of(field.payload), split));
    } else {
      append(split.structure, field.whole);
    }
  }
  return split;
}

}  // namespace tessera::io
