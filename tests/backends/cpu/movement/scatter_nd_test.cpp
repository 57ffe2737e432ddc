#include <gtest/gtest.h>

#include <limits>

#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "tessera/error.h"

namespace tessera::test::scatter_nd_test {
namespace {

TEST(CpuScatterNd, MatchesReference) {
  const struct {
    Shape data, indices, updates;
  } kCases[] = {
      {{7}, {3, 1}, {3}}, {{50, 33}, {20, 1}, {20, 33}}, {{5, 6, 7}, {4, 2}, {4, 7}},    {{5, 6, 7}, {2, 3, 3}, {2, 3}},
      {{5, 6}, {1}, {6}}, {{5, 6}, {0, 1}, {0, 6}},      {{300, 500}, {2, 1}, {2, 500}}, {{4, 0}, {2, 1}, {2, 0}}};
  for (const auto& [data, indices, updates] : kCases) {
    // Some indices are equal, of which the last wins, and some count from behind.
    const Tensor at = random_tensor(DType::i64, indices, 2, -4, 3);
    for (const DType type : {DType::f32, DType::f16, DType::u8, DType::i64, DType::boolean, DType::f64})
      expect_matches_reference(
          {"ScatterND", {random_tensor(type, data, 1, 0, 9), at, random_tensor(type, updates, 3, 0, 9)}});
  }
}

TEST(CpuScatterNd, JoinsAsTheReferenceDoes) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* reduction : {"add", "mul", "max", "min"}) {
    const ir::Attributes attributes{{"reduction", std::string(reduction)}};
    for (const DType type : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      const Tensor at = random_tensor(DType::i64, {40, 2}, 2, -4, 3);
      expect_matches_reference(
          {"ScatterND",
           {random_tensor(type, {5, 6, 19}, 1, -9, 9), at, random_tensor(type, {40, 19}, 3, -2, 2)},
           attributes},
          Tolerance::epsilons(type, 100));
    }
    expect_matches_reference(
        {"ScatterND",
         {Tensor::from<float>({4}, {1, nan, -inf, inf}), Tensor::from<std::int64_t>({6, 1}, {0, 1, 2, 3, 0, -1}),
          Tensor::from<float>({6}, {nan, 1, inf, -inf, 3, 0})},
         attributes});
  }
}

TEST(CpuScatterNd, RefusesIndicesOutside) {
  const Tensor data = random_tensor(DType::f32, {3, 4}, 1), updates = random_tensor(DType::f32, {1, 4}, 2);
  for (const std::int64_t index : {3, -4}) {
    const OpCall call{"ScatterND", {data, Tensor::from<std::int64_t>({1, 1}, {index}), updates}};
    for (const std::string device : {"reference", "cpu"}) EXPECT_THROW(run_op(call, device), Error);
  }
}

}  // namespace
}  // namespace tessera::test::scatter_nd_test
