#include "report/values/value_files.h"

#include <gtest/gtest.h>

#include <cmath>

#include "conformance/conformance.h"
#include "io/npz.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace tessera::test::value_files_test {
namespace {

using ir::ValueType;

const ValueType kNumber = ValueType::tensor(DType::f32);
Tensor names(std::initializer_list<std::string> values) {
  return Tensor::from<std::string>({static_cast<std::int64_t>(values.size())}, values);
}
Value map_of(std::initializer_list<std::string> keys, std::initializer_list<float> values) {
  std::vector<Value> parts;
  for (const float value : values) parts.emplace_back(Tensor::scalar(value));
  return Value::map(names(keys), std::move(parts));
}
const ValueType kMap = ValueType::map(DType::string, kNumber);

struct Example {
  Value value;
  ValueType type;
};

void expect_same(const NamedValues& read, const Value& value, const std::string& what) {
  ASSERT_TRUE(read.contains("x")) << what;
  EXPECT_EQ(conformance::difference(read.at("x"), value, {0, 0}), "") << what;
}

std::vector<Example> examples() {
  const Tensor matrix = Tensor::from<float>({2, 3}, {1, -2.5f, 0.1f, 4, 5, 6});
  return {
      {matrix, kNumber},
      {Tensor::scalar(0.1f), kNumber},
      {Tensor::from<std::int64_t>({2}, {std::int64_t{1} << 62, -3}), ValueType::tensor(DType::i64)},
      {Tensor::from<std::uint64_t>({1}, {~std::uint64_t{0}}), ValueType::tensor(DType::u64)},
      {Tensor::from<std::int8_t>({2}, {-128, 127}), ValueType::tensor(DType::i8)},
      {Tensor::from<bool>({2}, {true, false}), ValueType::tensor(DType::boolean)},
      {names({"größer", "\"q\"\n"}), ValueType::tensor(DType::string)},
      {Tensor::from<float>({3}, {INFINITY, -INFINITY, 1}), kNumber},
      {map_of({"b", "a"}, {1, 2}), kMap},
      {Value::map(Tensor::from<std::int64_t>({2}, {-5, 7}), {matrix, matrix}), ValueType::map(DType::i64, kNumber)},
      {Value::sequence({map_of({"a", "b"}, {1, 2}), map_of({"a", "b"}, {3, 4})}), ValueType::sequence(kMap)},
      {Value::sequence({map_of({"a"}, {1}), map_of({"b"}, {2})}), ValueType::sequence(kMap)},
      {Value::sequence({matrix, Tensor::scalar(1.0f)}), ValueType::sequence(kNumber)},
      {Value::sequence({Value::sequence({matrix})}), ValueType::sequence(ValueType::sequence(kNumber))},
      {matrix, ValueType::optional(kNumber)},
  };
}

// JSON objects are unordered: keys come back sorted.
Value sorted_by_key(const Value& value) {
  if (value.kind() == Value::Kind::sequence) {
    std::vector<Value> elements;
    for (const Value& element : value.elements()) elements.push_back(sorted_by_key(element));
    return Value::sequence(std::move(elements));
  }
  if (value.kind() != Value::Kind::map || value.keys().dtype() != DType::string) return value;
  std::vector<std::string> keys(value.keys().values<std::string>().begin(), value.keys().values<std::string>().end());
  std::sort(keys.begin(), keys.end());
  std::vector<Value> values;
  for (const std::string& key : keys) values.push_back(*value.find(key));
  return Value::map(
      Tensor::from<std::string>({static_cast<std::int64_t>(keys.size())}, std::span<const std::string>(keys)),
      std::move(values));
}

TEST(ValuesJson, RoundTrip) {
  for (const auto& [value, type] : examples()) {
    const std::string text = report::write_values_json({{"x", value}});
    expect_same(report::read_values_json(text, {{"x", type}}), sorted_by_key(value), text);
  }
  EXPECT_FALSE(report::read_values_json("{\"x\": null}", {{"x", ValueType::optional(kNumber)}}).at("x").has_value());
}

TEST(ValuesJson, WritesWhatPeopleExpect) {
  EXPECT_EQ(report::write_values_json({{"x", Value::sequence({map_of({"b", "a"}, {1, 0.5f})})},
                                       {"y", Tensor::from<std::int64_t>({2, 1}, {3, 4})},
                                       {"z", Value()}}),
            "{\"x\":[{\"a\":0.5,\"b\":1.0}],\"y\":[[3],[4]],\"z\":null}\n");
  EXPECT_EQ(report::write_values_json({{"x", Tensor::from<float>({2}, {NAN, -INFINITY})}}),
            "{\"x\":[\"NaN\",\"-Infinity\"]}\n");
}

TEST(ValuesJson, EmptyListsTakeTheirDeclaredShape) {
  const ValueType rows = ValueType::tensor(DType::f32, ir::Dims{ir::Dim(), 3});
  EXPECT_EQ(report::read_values_json("{\"x\": []}", {{"x", rows}}).at("x").tensor().shape(), (Shape{0, 3}));
}

TEST(ValuesJson, FaultsAreErrors) {
  const auto error = [](const std::string& text, const ValueType& type) {
    return error_of([&] { report::read_values_json(text, {{"x", type}}); });
  };
  EXPECT_EQ(error("{", kNumber), "not a JSON object");
  EXPECT_EQ(error("[1]", kNumber), "not a JSON object");
  EXPECT_EQ(error("{\"y\": 1}", kNumber), "'y' is not known");
  EXPECT_EQ(error("{\"x\": [1, [2]]}", kNumber), "[2] where a number (f32) was expected (in value 'x')");
  EXPECT_EQ(error("{\"x\": [[1], 2]}", kNumber), "2 where a list of 1 was expected (in value 'x')");
  EXPECT_EQ(error("{\"x\": [[1], [2, 3]]}", kNumber), "[2,3] where a list of 1 was expected (in value 'x')");
  EXPECT_EQ(error("{\"x\": 1.5}", ValueType::tensor(DType::i64)),
            "1.5 where a whole number (i64) was expected (in value 'x')");
  EXPECT_EQ(error("{\"x\": 128}", ValueType::tensor(DType::i8)),
            "128 where a whole number (i8) was expected (in value 'x')");
  EXPECT_EQ(error("{\"x\": -1}", ValueType::tensor(DType::u8)),
            "-1 where a whole number (u8) was expected (in value 'x')");
  EXPECT_EQ(error("{\"x\": 1}", ValueType::tensor(DType::boolean)),
            "1 where true or false was expected (in value 'x')");
  EXPECT_EQ(error("{\"x\": 1}", ValueType::tensor(DType::string)), "1 where a string was expected (in value 'x')");
  const std::string deep(200'000, '['), closed(200'000, ']');
  EXPECT_EQ(error("{\"x\": " + deep + closed + "}", kMap), "a list where an object was expected (in value 'x')");
  EXPECT_EQ(error("{\"x\": [1, " + deep + closed + "]}", kNumber),
            "a list where a number (f32) was expected (in value 'x')");
  EXPECT_EQ(error("{\"x\": 1}", kMap), "1 where an object was expected (in value 'x')");
  EXPECT_EQ(error("{\"x\": {}}", ValueType::sequence(kNumber)), "{} where a list was expected (in value 'x')");
  EXPECT_EQ(error("{\"x\": {\"1.\": 1}}", ValueType::map(DType::i64, kNumber)),
            "key '1.' where a whole number was expected (in value 'x')");
  EXPECT_EQ(error("{\"x\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}", kNumber),
            "lists are nested deeper than 64 (in value 'x')");
  EXPECT_EQ(error_of([] { report::write_values_json({{"x", Tensor(DType::c64, {1})}}); }),
            "JSON has no place for a c64 tensor; write an .npz archive");
  EXPECT_EQ(error_of([] { report::write_values_json({{"x", names({"\xFF"})}}); }),
            "a string or name is not UTF-8, which JSON has no place for; write an .npz archive");
}

TEST(ValuesNpz, RoundTrip) {
  const TemporaryFolder folder;
  for (const auto& [value, type] : examples()) {
    report::write_values_npz(folder / "a.npz", {{"x", value}});
    expect_same(report::read_values_npz(folder / "a.npz", {{"x", type}}), value, ir::to_string(type));
  }
}

TEST(ValuesNpz, StacksMapsOfEqualKeys) {
  const TemporaryFolder folder;
  report::write_values_npz(folder / "a.npz",
                           {{"p", Value::sequence({map_of({"a", "b"}, {1, 2}), map_of({"a", "b"}, {3, 4})})}});
  const std::map<std::string, Tensor> arrays = io::read_npz(folder / "a.npz");
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_TRUE(identical(arrays.at("p/keys"), names({"a", "b"})));
  EXPECT_TRUE(identical(arrays.at("p/values"), Tensor::from<float>({2, 2}, {1, 2, 3, 4})));
}

TEST(ValuesNpz, SaysWhatItCannotHold) {
  const TemporaryFolder folder;
  const auto error = [&](const Value& value) {
    return error_of([&] { report::write_values_npz(folder / "a.npz", {{"x", value}}); });
  };
  EXPECT_EQ(error(Value()), "'x' is absent, which an .npz archive cannot hold (a .json file can)");
  EXPECT_EQ(error(Value::sequence({})),
            "'x' is an empty sequence, which an .npz archive cannot hold (a .json file can)");
  EXPECT_EQ(
      error(Value::map(names({"a", "b"}), {Tensor::scalar(1.0f), Tensor(DType::f32, {2})})),
      "'x' is a map with values of different types or shapes, which an .npz archive cannot hold (a .json file can)");
}

TEST(ValuesNpz, FaultsAreErrors) {
  const TemporaryFolder folder;
  const auto error = [&](const std::map<std::string, Tensor>& arrays, const ValueType& type) {
    io::write_npz(folder / "a.npz", arrays);
    return error_of([&] { report::read_values_npz(folder / "a.npz", {{"x", type}}); });
  };
  EXPECT_EQ(error({{"x/values", Tensor(DType::f32, {1})}}, kMap), "the archive has no array 'x/keys'");
  EXPECT_EQ(error({{"x/keys", names({"a"})}}, kMap), "the archive has no array 'x/values'");
  EXPECT_EQ(error({{"x/keys", names({"a"})}, {"x/values", Tensor(DType::f32, {2})}}, kMap),
            "'x/values' has shape [2] for 1 keys of 'x'");
  EXPECT_EQ(error({{"x/keys", names({"a", "a"})}, {"x/values", Tensor(DType::f32, {2})}}, kMap),
            "a map holds key 'a' twice");
  EXPECT_EQ(error({{"x/1", Tensor(DType::f32, {2})}}, ValueType::sequence(kNumber)), "the archive has no array 'x/0'");
}

}  // namespace
}  // namespace tessera::test::value_files_test
