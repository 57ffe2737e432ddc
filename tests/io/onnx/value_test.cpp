// Values outside models, written and read back.
#include <gtest/gtest.h>

#include "conformance/conformance.h"
#include "io/onnx/reader.h"
#include "io/onnx/writer.h"
#include "onnx.pb.h"
#include "support/error_of.h"

namespace tessera::test::value_test {
namespace {

using ir::ValueType;

std::string read_error(const google::protobuf::MessageLite& proto, const ValueType& type) {
  const std::string bytes = proto.SerializeAsString();
  return error_of([&] { io::read_value_proto(std::as_bytes(std::span(bytes)), type); });
}

TEST(ValueFiles, RoundTrip) {
  const ValueType number = ValueType::tensor(DType::f32), text = ValueType::tensor(DType::string);
  const Value tensor = Tensor::from<float>({2, 1}, {1, 2});
  const Value named =
      Value::map(Tensor::from<std::string>({2}, {"b", "a"}), {Tensor::scalar(1.0f), Tensor::scalar(2.0f)});
  const Value numbered = Value::map(Tensor::from<std::int64_t>({1}, {-7}), {Tensor::scalar(std::string("x"))});
  const std::pair<Value, ValueType> cases[] = {
      {tensor, number},
      {named, ValueType::map(DType::string, number)},
      {numbered, ValueType::map(DType::i64, text)},
      {Value::sequence({named, named}), ValueType::sequence(ValueType::map(DType::string, number))},
      {Value::sequence({Value::sequence({tensor}), Value::sequence({})}),
       ValueType::sequence(ValueType::sequence(number))},
      {Value::map(Tensor::from<std::int64_t>({1}, {3}), {Value::sequence({tensor, tensor})}),
       ValueType::map(DType::i64, ValueType::sequence(number))},
      {Value::sequence({}), ValueType::sequence(number)},
      {Value::sequence({Value(), Value()}), ValueType::sequence(ValueType::optional(number))},
      {Value(), ValueType::optional(number)},
  };
  for (const auto& [value, type] : cases)
    EXPECT_EQ(conformance::difference(io::read_value_proto(io::write_value_proto(value, "name"), type), value, {0, 0}),
              "")
        << ir::to_string(type);
}

TEST(ValueFiles, RefusesMixedSequences) {
  EXPECT_EQ(error_of([] { io::write_value_proto(Value::sequence({Tensor::scalar(1.0f), Value::sequence({})})); }),
            "ONNX has no sequence of values of different kinds");
}

TEST(ValueFiles, RefusesFaultyMaps) {
  const ValueType type = ValueType::map(DType::string, ValueType::tensor(DType::f32));
  tessera_onnx::MapProto map;
  map.set_key_type(8);
  for (const char* key : {"a", "a"}) {
    map.add_string_keys(key);
    auto& value = *map.mutable_values()->add_tensor_values();
    value.set_data_type(1);
    value.add_float_data(1);
  }
  EXPECT_EQ(read_error(map, type), "a map holds key 'a' twice");
  map.mutable_string_keys()->RemoveLast();
  EXPECT_EQ(read_error(map, type), "a map of 1 keys and 2 values");
  map.set_key_type(1);
  EXPECT_EQ(read_error(map, type), "maps with keys of f32; i64 and string are supported");
  map.set_key_type(0);
  EXPECT_EQ(read_error(map, type), "the element type is undefined");
}

}  // namespace
}  // namespace tessera::test::value_test
