#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::support_vectors_test {
namespace {

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<float>;

Reals random_reals(std::int64_t count, std::uint64_t seed) {
  const Tensor values = random_tensor(DType::f32, {count}, seed, -1, 1);
  return {values.data<float>(), values.data<float>() + count};
}

struct Machine {
  const char* kernel = "RBF";
  Integers per_class;  // empty: a regressor
  std::int64_t vectors = 0, features = 5;
  Reals parameters{0.1f, 0.5f, 3};
  bool probabilities = false;
  const char* transform = "NONE";
};

ir::Attributes attributes_of(const Machine& machine, std::uint64_t seed) {
  const auto classes = static_cast<std::int64_t>(machine.per_class.size());
  const std::int64_t vectors =
      classes > 0 ? std::accumulate(machine.per_class.begin(), machine.per_class.end(), std::int64_t{0})
                  : machine.vectors;
  const std::int64_t pairs = classes > 0 ? classes * (classes - 1) / 2 : 1;
  ir::Attributes attributes{{"kernel_type", std::string(machine.kernel)},
                            {"kernel_params", machine.parameters},
                            {"support_vectors", random_reals(vectors * machine.features, seed)},
                            {"coefficients", random_reals(vectors * std::max<std::int64_t>(1, classes - 1), seed + 1)},
                            {"rho", random_reals(pairs, seed + 2)},
                            {"post_transform", std::string(machine.transform)}};
  if (classes == 0) {
    attributes.emplace("n_supports", vectors);
    return attributes;
  }
  Integers labels(machine.per_class.size());
  std::iota(labels.begin(), labels.end(), 7);
  attributes.emplace("vectors_per_class", machine.per_class);
  attributes.emplace("classlabels_ints", labels);
  if (machine.probabilities) {
    attributes.emplace("prob_a", random_reals(pairs, seed + 3));
    attributes.emplace("prob_b", random_reals(pairs, seed + 4));
  }
  return attributes;
}

void check(const Machine& machine, std::initializer_list<std::int64_t> rows = {1, 7, 9, 70}) {
  for (const std::int64_t count : rows) {
    const Tensor x = random_tensor(DType::f32, {count, machine.features}, 77, -2, 2);
    const bool classifies = !machine.per_class.empty();
    expect_matches_reference({classifies ? "ai.onnx.ml::SVMClassifier" : "ai.onnx.ml::SVMRegressor",
                              {x},
                              attributes_of(machine, 5),
                              static_cast<std::size_t>(classifies ? 2 : 1)},
                             Tolerance::epsilons(DType::f32, 4));
  }
}

TEST(CpuSvm, KernelsMatchReference) {
  for (const char* kernel : {"LINEAR", "RBF", "SIGMOID", "POLY"}) {
    check({.kernel = kernel, .vectors = 1, .features = 1});
    check({.kernel = kernel, .vectors = 300, .features = 30});
    check({.kernel = kernel, .per_class = {3, 5}});
    check({.kernel = kernel, .per_class = {17, 0, 240, 100}, .features = 11});
    check({.kernel = kernel, .per_class = {1, 1, 1, 1, 1, 1}, .features = 3});
  }
  for (const float degree : {0.0f, 1.0f, 2.0f, 7.0f, 0.5f, -1.0f})
    check({.kernel = "POLY", .vectors = 40, .parameters = {0.3f, 4, degree}});
}

TEST(CpuSvm, TransformsAndProbabilitiesMatchReference) {
  for (const char* transform : {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}) {
    check({.vectors = 9, .transform = transform});
    check({.per_class = {4, 5}, .transform = transform});
    check({.per_class = {4, 5, 6}, .transform = transform});
    check({.per_class = {4, 5}, .probabilities = true, .transform = transform});
    check({.per_class = {40, 50, 60, 70}, .features = 12, .probabilities = true, .transform = transform});
  }
}

TEST(CpuSvm, SpecialNumbersMatchReference) {
  const float x[] = {NAN, 1, INFINITY, 2, -INFINITY, -1, 1e30f, 1e30f, 3e3f, -3e3f, 0, 0};
  const Tensor rows = Tensor::from<float>({6, 2}, std::span<const float>(x));
  for (const char* kernel : {"RBF", "SIGMOID", "POLY"}) {
    for (const float gamma : {0.5f, -0.01f}) {
      const ir::Attributes attributes =
          attributes_of({.kernel = kernel, .vectors = 20, .features = 2, .parameters = {gamma, 0, 2}}, 9);
      expect_matches_reference({"ai.onnx.ml::SVMRegressor", {rows}, attributes}, Tolerance::epsilons(DType::f32, 8));
    }
  }
}

TEST(CpuSvm, OneClassAndNames) {
  ir::Attributes one_class = attributes_of({.vectors = 20}, 9);
  one_class.emplace("one_class", std::int64_t{1});
  expect_matches_reference({"ai.onnx.ml::SVMRegressor", {random_tensor(DType::f32, {40, 5}, 4, -2, 2)}, one_class});
  ir::Attributes names = attributes_of({.per_class = {4, 5, 6}}, 9);
  names.erase("classlabels_ints");
  names.emplace("classlabels_strings", std::vector<std::string>{"a", "b", "c"});
  expect_matches_reference({"ai.onnx.ml::SVMClassifier", {random_tensor(DType::f32, {40, 5}, 4, -2, 2)}, names, 2},
                           Tolerance::epsilons(DType::f32, 4));
}

TEST(CpuSquaredDistances, MatchesReference) {
  for (const auto& [a, b, features] : {std::tuple{1, 1, 1}, {1, 40, 30}, {7, 33, 5}, {19, 600, 8}, {70, 1030, 30}}) {
    expect_matches_reference(
        {"tessera::SquaredDistances",
         {random_tensor(DType::f32, {a, features}, 1, -3, 3), random_tensor(DType::f32, {b, features}, 2, -3, 3)}},
        Tolerance::epsilons(DType::f32, 16));
  }
}

}  // namespace
}  // namespace tessera::test::support_vectors_test
