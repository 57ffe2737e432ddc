#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::categories_test {
namespace {

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<float>;
using Texts = std::vector<std::string>;

Tensor words(std::int64_t count) {
  Tensor tensor(DType::string, {count});
  for (std::int64_t i = 0; i < count; ++i) tensor.mutable_data<std::string>()[i] = std::string(1, "abcdxy"[i * 7 % 6]);
  return tensor;
}

TEST(CpuLabelEncoder, MatchesReference) {
  const std::pair<const char*, ir::Attribute> keys[] = {{"keys_strings", Texts{"a", "b", "d", "b"}},
                                                        {"keys_int64s", Integers{3, -1, 2, -1}},
                                                        {"keys_floats", Reals{0, NAN, 1, -1}}};
  const std::pair<const char*, ir::Attribute> values[] = {{"values_strings", Texts{"p", "q", "r", "s"}},
                                                          {"values_int64s", Integers{4, 5, 6, 7}},
                                                          {"values_floats", Reals{0.5f, NAN, -0.0f, 2}}};
  const float special[] = {NAN, 0, -0.0f, 1, INFINITY, -1, 0.5f};
  const Tensor inputs[] = {words(9000), random_tensor(DType::i64, {3000, 3}, 1, -4, 4),
                           Tensor::from<float>({7}, std::span<const float>(special))};
  for (std::size_t i = 0; i < 3; ++i) {
    for (const auto& value : values)
      expect_matches_reference({"ai.onnx.ml::LabelEncoder", {inputs[i]}, {{keys[i].first, keys[i].second}, value}});
  }
}

TEST(CpuOneHotEncoder, MatchesReference) {
  const ir::Attributes texts{{"cats_strings", Texts{"a", "b", "d", "b"}}},
      numbers{{"cats_int64s", Integers{0, 3, -1, 3, 2}}};
  const float special[] = {NAN, 0, -0.0f, 0.9f, -0.9f, 3.5f, INFINITY, -1, 1e30f};
  for (const std::int64_t count : {0, 1, 9001})
    expect_matches_reference({"ai.onnx.ml::OneHotEncoder", {words(count)}, texts});
  expect_matches_reference({"ai.onnx.ml::OneHotEncoder", {random_tensor(DType::i64, {3000, 3}, 1, -4, 4)}, numbers});
  expect_matches_reference({"ai.onnx.ml::OneHotEncoder", {random_tensor(DType::f32, {3000, 3}, 1, -4, 4)}, numbers});
  expect_matches_reference(
      {"ai.onnx.ml::OneHotEncoder", {Tensor::from<float>({9}, std::span<const float>(special))}, numbers});
}

}  // namespace
}  // namespace tessera::test::categories_test
