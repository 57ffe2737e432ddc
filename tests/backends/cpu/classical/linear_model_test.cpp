#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::classical_linear_model_test {
namespace {

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<float>;

Reals random_reals(std::int64_t count, std::uint64_t seed) {
  const Tensor values = random_tensor(DType::f32, {count}, seed, -2, 2);
  return {values.data<float>(), values.data<float>() + count};
}

Tensor random_rows(std::int64_t rows, std::int64_t features, std::uint64_t seed) {
  return random_tensor(DType::f32, {rows, features}, seed, -3, 3);
}

Integers labels_of(std::int64_t classes) {
  Integers labels;
  for (std::int64_t i = 0; i < classes; ++i) labels.push_back(10 * i + 3);
  return labels;
}

const char* const kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};

TEST(CpuLinearClassifier, MatchesReference) {
  std::uint64_t seed = 0;
  for (const char* transform : kTransforms) {
    for (const std::int64_t features : {1, 7, 30, 97}) {
      for (const std::int64_t classes : {1, 2, 3, 4, 9}) {
        for (const std::int64_t rows : {1, 2, 5, 3000}) {
          if (rows == 3000 && (features != 30 || classes > 4)) continue;
          ir::Attributes attributes{{"coefficients", random_reals(classes * features, ++seed)},
                                    {"classlabels_ints", labels_of(std::max<std::int64_t>(2, classes))},
                                    {"post_transform", std::string(transform)}};
          if (features != 7) attributes.emplace("intercepts", random_reals(classes, ++seed));
          expect_matches_reference({"ai.onnx.ml::LinearClassifier", {random_rows(rows, features, seed)}, attributes, 2},
                                   Tolerance::epsilons(DType::f32, 16));
        }
      }
    }
  }
}

TEST(CpuLinearClassifier, SpecialNumbersAndNames) {
  const float x[] = {NAN, 1, INFINITY, 2, -INFINITY, -1, 1e30f, 1e30f, 0, 0};
  const ir::Attributes attributes{{"coefficients", Reals{1, -2, 3, 0.5f, 1, 1}},
                                  {"classlabels_strings", std::vector<std::string>{"a", "b", "c"}}};
  for (const char* transform : {"NONE", "SOFTMAX", "LOGISTIC"}) {
    ir::Attributes each = attributes;
    each.emplace("post_transform", std::string(transform));
    expect_matches_reference(
        {"ai.onnx.ml::LinearClassifier", {Tensor::from<float>({5, 2}, std::span<const float>(x))}, each, 2},
        Tolerance::epsilons(DType::f32, 16));
  }
}

TEST(CpuLinearRegressor, MatchesReference) {
  std::uint64_t seed = 100;
  for (const char* transform : kTransforms) {
    for (const std::int64_t targets : {1, 2, 5}) {
      for (const Shape& shape : {Shape{1, 30}, Shape{13, 1}, Shape{3000, 30}, Shape{11}}) {
        expect_matches_reference({"ai.onnx.ml::LinearRegressor",
                                  {random_tensor(DType::f32, shape, ++seed, -3, 3)},
                                  {{"coefficients", random_reals(targets * shape.back(), ++seed)},
                                   {"intercepts", random_reals(targets, ++seed)},
                                   {"targets", targets},
                                   {"post_transform", std::string(transform)}}},
                                 Tolerance::epsilons(DType::f32, 16));
      }
    }
  }
}

TEST(CpuScaler, MatchesReference) {
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{3, 17}, Shape{2, 3, 4}, Shape{3000, 33}, Shape{0, 4}}) {
    const std::int64_t columns = shape.empty() ? 1 : shape.back();
    const Tensor x = random_tensor(DType::f32, shape, 3, -9, 9);
    expect_matches_reference(
        {"ai.onnx.ml::Scaler", {x}, {{"offset", random_reals(columns, 1)}, {"scale", random_reals(columns, 2)}}});
    expect_matches_reference({"ai.onnx.ml::Scaler", {x}, {{"scale", Reals{3}}}});
    expect_matches_reference({"ai.onnx.ml::Scaler", {x}, {{"offset", Reals{0.1f}}}});
  }
}

TEST(CpuScaler, SpecialNumbers) {
  const float x[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f, -0.0f, 1, 2, 3};
  expect_matches_reference({"ai.onnx.ml::Scaler",
                            {Tensor::from<float>({2, 5}, std::span<const float>(x))},
                            {{"offset", Reals{-2}}, {"scale", Reals{3}}}});
}

TEST(CpuNormalizer, MatchesReference) {
  const float special[] = {NAN, 1, 2, INFINITY, 1, -2, 1e30f, 1e30f, -1e30f, 0, -0.0f, 0};
  for (const char* norm : {"MAX", "L1", "L2"}) {
    const ir::Attributes attributes{{"norm", std::string(norm)}};
    for (const Shape& shape : {Shape{1}, Shape{5}, Shape{3, 17}, Shape{3000, 33}, Shape{4001, 4}, Shape{0, 4}}) {
      expect_matches_reference({"ai.onnx.ml::Normalizer", {random_tensor(DType::f32, shape, 3, -9, 9)}, attributes},
                               Tolerance::epsilons(DType::f32, 1));
    }
    expect_matches_reference(
        {"ai.onnx.ml::Normalizer", {Tensor::from<float>({4, 3}, std::span<const float>(special))}, attributes},
        Tolerance::epsilons(DType::f32, 1));
  }
}

}  // namespace
}  // namespace tessera::test::classical_linear_model_test
