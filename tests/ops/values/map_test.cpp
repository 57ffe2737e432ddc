#include <gtest/gtest.h>

#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/run_op.h"
#include "tessera/session.h"

namespace tessera::test::map_test {
namespace {

using Integers = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

Tensor texts(const Texts& values) {
  return Tensor::from<std::string>({static_cast<std::int64_t>(values.size())}, std::span<const std::string>(values));
}
Tensor integers(const Integers& values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, std::span<const std::int64_t>(values));
}

template <typename T>
Value map_of(Tensor keys, std::vector<T> values) {
  std::vector<Value> parts;
  for (const T& value : values) parts.emplace_back(Tensor::scalar(value));
  return Value::map(std::move(keys), std::move(parts));
}

float number(const Value* value) {
  return *value->tensor().data<float>();
}

TEST(ZipMap, MakesAMapOfEachRow) {
  const Tensor scores = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Value maps = run_op({"ai.onnx.ml::ZipMap", {scores}, {{"classlabels_strings", Texts{"b", "a", "c"}}}})[0];
  ASSERT_EQ(maps.elements().size(), 2u);
  EXPECT_EQ(number(maps.elements()[0].find("b")), 1);
  EXPECT_EQ(number(maps.elements()[1].find("c")), 6);
  EXPECT_EQ(maps.elements()[0].find("d"), nullptr);
}

TEST(ZipMap, TakesARowWithoutBatch) {
  const Value maps = run_op(
      {"ai.onnx.ml::ZipMap", {Tensor::from<float>({2}, {0.5f, 0.25f})}, {{"classlabels_int64s", Integers{7, -1}}}})[0];
  ASSERT_EQ(maps.elements().size(), 1u);
  EXPECT_EQ(number(maps.elements()[0].find(-1)), 0.25f);
}

TEST(ZipMap, InfersAndRefuses) {
  const auto scores = [](ir::Dims dims) { return ir::ValueType::tensor(DType::f32, std::move(dims)); };
  const ir::Attributes labels{{"classlabels_int64s", Integers{1, 2}}};
  EXPECT_EQ(ir::to_string(infer_op("ai.onnx.ml::ZipMap", {scores({ir::Dim::symbol("n"), 2})}, labels)[0]),
            "seq(map(i64, f32[]))");
  expect_error(ErrorKind::invalid_model, "X has 3 columns for 2 keys",
               [&] { infer_op("ai.onnx.ml::ZipMap", {scores({4, 3})}, labels); });
  expect_error(ErrorKind::invalid_model, "X has rank 3, expected 1 or 2",
               [&] { infer_op("ai.onnx.ml::ZipMap", {scores({1, 4, 2})}, labels); });
  expect_error(ErrorKind::invalid_model, "none of classlabels_int64s and classlabels_strings are given, expected one",
               [&] { infer_op("ai.onnx.ml::ZipMap", {scores({4, 3})}); });
  expect_error(ErrorKind::invalid_model, "classlabels_int64s holds '5' twice",
               [&] { infer_op("ai.onnx.ml::ZipMap", {scores({4, 2})}, {{"classlabels_int64s", Integers{5, 5}}}); });
}

TEST(DictVectorizer, PutsValuesInTheOrderOfTheVocabulary) {
  const Value map = map_of<float>(texts({"c", "a", "other"}), {8, 4, 1});
  EXPECT_TRUE(identical(
      run_op_tensor({"ai.onnx.ml::DictVectorizer", {map}, {{"string_vocabulary", Texts{"a", "c", "b", "z"}}}}),
      Tensor::from<float>({1, 4}, {4, 8, 0, 0})));
  const Value words = map_of<std::string>(integers({3, 1}), {"three", "one"});
  EXPECT_TRUE(
      identical(run_op_tensor({"ai.onnx.ml::DictVectorizer", {words}, {{"int64_vocabulary", Integers{1, 2, 3}}}}),
                Tensor::from<std::string>({1, 3}, {"one", "", "three"})));
}

TEST(DictVectorizer, RefusesOtherKeys) {
  const Value map = map_of<float>(texts({"c"}), {8});
  expect_error(ErrorKind::invalid_model, "input 'X' is map(string, f32[]), expected a map with keys of i64",
               [&] { run_op({"ai.onnx.ml::DictVectorizer", {map}, {{"int64_vocabulary", Integers{1}}}}); });
}

Tensor cast_map(const Value& map, const std::string& to, const std::string& form = "DENSE", std::int64_t length = 1) {
  return run_op_tensor({"ai.onnx.ml::CastMap", {map}, {{"cast_to", to}, {"map_form", form}, {"max_map", length}}});
}

TEST(CastMap, OrdersByKey) {
  const Value map = map_of<float>(integers({5, 2, 3}), {4.5f, -1.5f, 0.1f});
  EXPECT_TRUE(identical(cast_map(map, "TO_FLOAT"), Tensor::from<float>({1, 3}, {-1.5f, 0.1f, 4.5f})));
  EXPECT_TRUE(identical(cast_map(map, "TO_INT64"), Tensor::from<std::int64_t>({1, 3}, {-1, 0, 4})));
  EXPECT_TRUE(identical(cast_map(map, "TO_STRING"), Tensor::from<std::string>({1, 3}, {"-1.5", "0.1", "4.5"})));
  const Value words = map_of<std::string>(integers({2, 1}), {"7", "-1"});
  EXPECT_TRUE(identical(cast_map(words, "TO_FLOAT"), Tensor::from<float>({1, 2}, {-1, 7})));
  EXPECT_TRUE(identical(cast_map(words, "TO_INT64"), Tensor::from<std::int64_t>({1, 2}, {-1, 7})));
  EXPECT_TRUE(identical(cast_map(words, "TO_STRING"), Tensor::from<std::string>({1, 2}, {"-1", "7"})));
}

TEST(CastMap, PlacesByKey) {
  const Value map = map_of<float>(integers({3, 1}), {4.5f, -1.5f});
  EXPECT_TRUE(identical(cast_map(map, "TO_FLOAT", "SPARSE", 5), Tensor::from<float>({1, 5}, {0, -1.5f, 0, 4.5f, 0})));
  EXPECT_TRUE(
      identical(cast_map(map, "TO_STRING", "SPARSE", 4), Tensor::from<std::string>({1, 4}, {"0", "-1.5", "0", "4.5"})));
  expect_error(ErrorKind::failed, "key 3 is outside [0, 3), the places that max_map gives",
               [&] { cast_map(map, "TO_FLOAT", "SPARSE", 3); });
  expect_error(ErrorKind::failed, "key -1 is outside [0, 3), the places that max_map gives",
               [&] { cast_map(map_of<float>(integers({-1}), {1}), "TO_FLOAT", "SPARSE", 3); });
}

TEST(CastMap, RefusesUnknownForms) {
  const Value map = map_of<float>(integers({3}), {4.5f});
  expect_error(ErrorKind::invalid_model, "cast_to 'TO_DOUBLE' is none of TO_FLOAT, TO_STRING, TO_INT64",
               [&] { cast_map(map, "TO_DOUBLE"); });
  expect_error(ErrorKind::invalid_model, "map_form 'ROW' is neither DENSE nor SPARSE",
               [&] { cast_map(map, "TO_FLOAT", "ROW"); });
  expect_error(ErrorKind::failed, "'x' is not a number",
               [&] { cast_map(map_of<std::string>(integers({3}), {"x"}), "TO_FLOAT"); });
}

// Scores -> maps -> the first map -> scores again, and a map as an input of the model.
TEST(Maps, FlowThroughModels) {
  auto graph = std::make_shared<ir::Graph>();
  const ir::ValueId map =
      graph->add_input("map", ir::ValueType::map(DType::string, ir::ValueType::tensor(DType::f32, ir::Dims{})));
  ops::GraphBuilder builder(*graph);
  const ir::ValueId row = builder.add("ai.onnx.ml::DictVectorizer", {map}, {{"string_vocabulary", Texts{"a", "b"}}});
  graph->add_output(
      builder.add("ai.onnx.ml::ZipMap", {builder.add("Neg", {row})}, {{"classlabels_strings", Texts{"x", "y"}}}));
  graph->value(graph->outputs()[0]).name = "zipped";
  for (const std::string device : {"cpu", "reference"}) {
    Session session(Model(graph), {.device = device});
    const Value zipped = session.run({{"map", map_of<float>(texts({"b"}), {3})}}).at("zipped");
    EXPECT_EQ(number(zipped.elements().at(0).find("y")), -3);
    EXPECT_EQ(number(zipped.elements().at(0).find("x")), 0);
    // An empty map does not say what it would hold.
    EXPECT_EQ(number(session.run({{"map", Value::map(texts({}), {})}}).at("zipped").elements().at(0).find("y")), 0);
    expect_error(ErrorKind::invalid_argument, "input 'map' is map(i64, f32[]), expected map(string, f32[])",
                 [&] { session.run({{"map", map_of<float>(integers({1}), {1})}}); });
    expect_error(ErrorKind::invalid_argument,
                 "input 'map' holds f64[], expected f32[] (the input is declared map(string, f32[]))",
                 [&] { session.run({{"map", map_of<double>(texts({"a"}), {1})}}); });
  }
}

}  // namespace
}  // namespace tessera::test::map_test
