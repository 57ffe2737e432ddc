#include "io/onnx/wire.h"

#include <cstdint>
#include <limits>

#include "base/error.h"
#include "io/onnx/field_reader.h"

namespace tessera::io {
namespace {

// Field numbers of onnx.proto on the path to the weights.
constexpr std::uint64_t kModelGraph = 7, kGraphInitializer = 5, kTensorRawData = 9;

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
    const WireField field = reader.next();
    if (field.number == kTensorRawData && field.type == length_delimited)
      raw_data = field.payload;  // the last one counts
    else append(rest, field.whole);
  }
  return rest;
}

std::string split_graph(std::span<const std::byte> bytes, std::size_t offset, SplitModel& split) {
  std::string rest;
  for (FieldReader reader(bytes, offset); !reader.done();) {
    const WireField field = reader.next();
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
    const WireField field = reader.next();
    if (field.number == kModelGraph && field.type == length_delimited) {
      append_message(split.structure, field.number, split_graph(field.payload, reader.offset_of(field.payload), split));
    } else {
      append(split.structure, field.whole);
    }
  }
  return split;
}

}  // namespace tessera::io
