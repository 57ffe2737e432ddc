#include <gtest/gtest.h>

#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/error.h"

namespace tessera::test::linear_model_test {
namespace {

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<float>;
using Texts = std::vector<std::string>;

const Tensor kRows = Tensor::from<float>({2, 2}, {1, 2, -3, 1});

std::string error_of(const OpCall& call) {
  try {
    run_op(call);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(LinearRegressor, OneSumATarget) {
  const ir::Attributes attributes{
      {"coefficients", Reals{1, 10, 2, 0}}, {"intercepts", Reals{0.5f, 0}}, {"targets", std::int64_t{2}}};
  EXPECT_TRUE(close_to(run_op_tensor({"ai.onnx.ml::LinearRegressor", {kRows}, attributes}),
                       Tensor::from<float>({2, 2}, {21.5f, 2, 7.5f, -6})));
}

TEST(LinearClassifier, OneScoreTellsTwoClassesApart) {
  const ir::Attributes attributes{{"coefficients", Reals{1, 0}}, {"classlabels_strings", Texts{"no", "yes"}}};
  const std::vector<Value> y = run_op({"ai.onnx.ml::LinearClassifier", {kRows}, attributes, 2});
  EXPECT_TRUE(close_to(y[0].tensor(), Tensor::from<std::string>({2}, {"yes", "no"})));
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<float>({2, 2}, {0, 1, 4, -3})));
}

TEST(LinearClassifier, ScoresThatAreEqualInFloat32TieAndTheFirstClassWins) {
  // In double the second score is larger by 2^-30, which float32 does not hold beside 1.
  const ir::Attributes attributes{{"coefficients", Reals{1, 0, 1, 0x1p-30f}}, {"classlabels_ints", Integers{3, 7}}};
  const Tensor row = Tensor::from<float>({1, 2}, {1, 1});
  const std::vector<Value> y = run_op({"ai.onnx.ml::LinearClassifier", {row}, attributes, 2});
  EXPECT_TRUE(close_to(y[0].tensor(), Tensor::from<std::int64_t>({1}, {3})));
}

TEST(SvmRegressor, SumsKernels) {
  const ir::Attributes attributes{{"coefficients", Reals{2, -1}},
                                  {"support_vectors", Reals{1, 0, 0, 1}},
                                  {"n_supports", std::int64_t{2}},
                                  {"rho", Reals{0.5f}}};
  EXPECT_TRUE(close_to(run_op_tensor({"ai.onnx.ml::SVMRegressor", {kRows}, attributes}),
                       Tensor::from<float>({2, 1}, {0.5f, -6.5f})));
}

TEST(SvmClassifier, PairsVote) {
  const ir::Attributes attributes{{"coefficients", Reals{1, -1}},
                                  {"support_vectors", Reals{1, 0, 0, 1}},
                                  {"vectors_per_class", Integers{1, 1}},
                                  {"rho", Reals{0}},
                                  {"classlabels_ints", Integers{3, 7}}};
  EXPECT_TRUE(
      close_to(run_op_tensor({"ai.onnx.ml::SVMClassifier", {Tensor::from<float>({2, 2}, {5, 2, 1, 2})}, attributes, 2}),
               Tensor::from<std::int64_t>({2}, {3, 7})));
}

TEST(LinearModels, RefuseCountsThatDoNotFit) {
  EXPECT_EQ(error_of({"ai.onnx.ml::LinearRegressor", {kRows}, {{"coefficients", Reals{1}}}}),
            "attribute 'coefficients' has 1 entries, expected 2");
  EXPECT_EQ(error_of({"ai.onnx.ml::SVMRegressor",
                      {kRows},
                      {{"coefficients", Reals{1}}, {"rho", Reals{0}}, {"n_supports", std::int64_t{1}}}}),
            "attribute 'support_vectors' has 0 entries, expected 2");
}

TEST(FeatureTransform, Values) {
  EXPECT_TRUE(close_to(run_op_tensor({"ai.onnx.ml::Scaler", {kRows}, {{"offset", Reals{1, 2}}, {"scale", Reals{2}}}}),
                       Tensor::from<float>({2, 2}, {0, 0, -8, -2})));
  EXPECT_TRUE(close_to(
      run_op_tensor(
          {"ai.onnx.ml::Normalizer", {Tensor::from<float>({2, 2}, {3, -4, 0, 0})}, {{"norm", std::string("L2")}}}),
      Tensor::from<float>({2, 2}, {0.6f, -0.8f, 0, 0})));
  EXPECT_TRUE(close_to(
      run_op_tensor(
          {"ai.onnx.ml::Imputer", {kRows}, {{"imputed_value_floats", Reals{9}}, {"replaced_value_float", 1.0f}}}),
      Tensor::from<float>({2, 2}, {9, 2, -3, 9})));
  EXPECT_TRUE(close_to(run_op_tensor({"ai.onnx.ml::FeatureVectorizer", {kRows, Tensor::from<float>({2, 1}, {7, 8})}}),
                       Tensor::from<float>({2, 3}, {1, 2, 7, -3, 1, 8})));
  const Tensor words = Tensor::from<std::string>({2}, {"b", "x"});
  EXPECT_TRUE(close_to(run_op_tensor({"ai.onnx.ml::OneHotEncoder", {words}, {{"cats_strings", Texts{"a", "b"}}}}),
                       Tensor::from<float>({2, 2}, {0, 1, 0, 0})));
  EXPECT_TRUE(close_to(run_op_tensor({"ai.onnx.ml::CategoryMapper",
                                      {words},
                                      {{"cats_strings", Texts{"a", "b"}}, {"cats_int64s", Integers{1, 2}}}}),
                       Tensor::from<std::int64_t>({2}, {2, -1})));
}

TEST(FeatureTransform, RefusesUnknownCategoriesAndWrongCounts) {
  const Tensor words = Tensor::from<std::string>({1}, {"x"});
  EXPECT_EQ(
      error_of({"ai.onnx.ml::OneHotEncoder", {words}, {{"cats_strings", Texts{"a"}}, {"zeros", std::int64_t{0}}}}),
      "unknown category 'x'");
  EXPECT_EQ(error_of({"ai.onnx.ml::Scaler", {kRows}, {{"scale", Reals{1, 2, 3}}}}),
            "attribute 'scale' has 3 entries, expected 1 or 2");
}

}  // namespace
}  // namespace tessera::test::linear_model_test
