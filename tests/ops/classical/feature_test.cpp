#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::feature_test {
namespace {

TEST(LabelEncoder, MapsKeysAndFallsBack) {
  const ir::Attributes table = {{"keys_strings", std::vector<std::string>{"a", "b"}},
                                {"values_int64s", std::vector<std::int64_t>{10, 20}},
                                {"default_int64", std::int64_t{42}}};
  EXPECT_TRUE(
      identical(run_op_tensor({"ai.onnx.ml::LabelEncoder", {Tensor::from<std::string>({3}, {"b", "x", "a"})}, table}),
                Tensor::from<std::int64_t>({3}, {20, 42, 10})));
  const ir::Attributes floats = {{"keys_floats", std::vector<float>{NAN, 1}},
                                 {"values_strings", std::vector<std::string>{"nan", "one"}}};
  EXPECT_TRUE(identical(run_op_tensor({"ai.onnx.ml::LabelEncoder", {Tensor::from<float>({3}, {1, NAN, 2})}, floats}),
                        Tensor::from<std::string>({3}, {"one", "nan", "_Unused"})));
}

TEST(LabelEncoder, RefusesBrokenTables) {
  const Tensor x = Tensor::from<std::string>({1}, {"a"});
  expect_error(ErrorKind::invalid_model, "2 keys, but 1 values", [&] {
    run_op({"ai.onnx.ml::LabelEncoder",
            {x},
            {{"keys_strings", std::vector<std::string>{"a", "b"}}, {"values_int64s", std::vector<std::int64_t>{1}}}});
  });
  expect_error(ErrorKind::invalid_model, "0 keys_* attributes are given, expected one",
               [&] { run_op({"ai.onnx.ml::LabelEncoder", {x}}); });
}

TEST(ArrayFeatureExtractor, TakesColumns) {
  const Tensor x = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(
      identical(run_op_tensor({"ai.onnx.ml::ArrayFeatureExtractor", {x, Tensor::from<std::int64_t>({2}, {2, 0})}}),
                Tensor::from<float>({2, 2}, {3, 1, 6, 4})));
  expect_error(ErrorKind::failed, "index 3 is outside [-3, 3)",
               [&] { run_op({"ai.onnx.ml::ArrayFeatureExtractor", {x, Tensor::from<std::int64_t>({1}, {3})}}); });
}

TEST(Binarizer, ComparesWithTheThreshold) {
  EXPECT_TRUE(
      identical(run_op_tensor({"ai.onnx.ml::Binarizer", {Tensor::from<float>({3}, {0, 1, 2})}, {{"threshold", 1.0f}}}),
                Tensor::from<float>({3}, {0, 0, 1})));
}

}  // namespace
}  // namespace tessera::test::feature_test
