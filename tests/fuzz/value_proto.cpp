// Values of ONNX test data: the first byte says whether a TensorProto, SequenceProto, OptionalProto or MapProto
// follows.
#include <array>

#include "io/onnx/reader.h"
#include "io/onnx/writer.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {
namespace {

void check_round_trip(const Value& value) {
  if (value.is_tensor()) {
    const Value back = io::read_value_proto(io::write_value_proto(value, "name"), {});
    if (!back.is_tensor() || !identical(back.tensor(), value.tensor()))
      finding("a tensor that was read is written as another one");
  } else if (value.kind() != Value::Kind::none) {
    for (const Value& element : value.elements()) check_round_trip(element);
  }
}

}  // namespace

void value_proto(std::span<const std::byte> input) {
  using ir::ValueType;
  const auto [tag, bytes] = split_tag(input);
  const std::array types{ValueType{}, ValueType::sequence({}), ValueType::optional({}), ValueType::map(DType::i64, {})};
  Value value;
  try {
    value = io::read_value_proto(bytes, types[tag % types.size()]);
  } catch (const Error&) {
    return;
  }
  check_round_trip(value);
}

}  // namespace tessera::fuzz
