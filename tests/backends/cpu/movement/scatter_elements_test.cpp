#include <gtest/gtest.h>

#include <limits>

#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "tessera/error.h"

namespace tessera::test::scatter_elements_test {
namespace {

ir::Attributes attributes(std::int64_t axis, const char* reduction = "none") {
  return {{"axis", axis}, {"reduction", std::string(reduction)}};
}

// Some indices are equal, of which the last wins, and some count from behind.
struct Case {
  Shape data, indices;
  std::int64_t axis;
};
const Case kCases[] = {{{7}, {30}, 0},
                       {{50, 33}, {20, 33}, 0},
                       {{50, 33}, {20, 9}, 0},
                       {{50, 33}, {50, 5}, 1},
                       {{5, 6, 7}, {5, 9, 7}, 1},
                       {{5, 6, 7}, {4, 3, 2}, -2},
                       {{5, 6, 7}, {3, 6, 1}, 2},
                       {{5, 3, 4, 200}, {9, 2, 4, 190}, 0},
                       {{5, 3, 4, 6}, {2, 8, 3, 5}, 1},
                       {{5, 6}, {0, 6}, 0},
                       {{9, 300}, {300, 300}, 0}};

TEST(CpuScatterElements, MatchesReference) {
  for (const auto& [data, indices, axis] : kCases) {
    const std::int64_t bound = data[static_cast<std::size_t>(axis < 0 ? axis + std::ssize(data) : axis)];
    for (const DType index : {DType::i64, DType::i32}) {
      const Tensor at = random_tensor(index, indices, 2, -bound, bound - 1);
      for (const DType type : {DType::f32, DType::f16, DType::u8, DType::i64, DType::boolean, DType::f64})
        expect_matches_reference({"ScatterElements",
                                  {random_tensor(type, data, 1, 0, 9), at, random_tensor(type, indices, 3, 0, 9)},
                                  attributes(axis)});
    }
  }
}

TEST(CpuScatterElements, JoinsAsTheReferenceDoes) {
  for (const char* reduction : {"add", "mul", "max", "min"}) {
    for (const auto& [data, indices, axis] : kCases) {
      const std::int64_t bound = data[static_cast<std::size_t>(axis < 0 ? axis + std::ssize(data) : axis)];
      const Tensor at = random_tensor(DType::i64, indices, 2, -bound, bound - 1);
      for (const DType type : {DType::f32, DType::f64, DType::i32, DType::i64})
        expect_matches_reference({"ScatterElements",
                                  {random_tensor(type, data, 1, -9, 9), at, random_tensor(type, indices, 3, -1, 1)},
                                  attributes(axis, reduction)},
                                 Tolerance::epsilons(type, 1000));
    }
  }
}

TEST(CpuScatterElements, KnowsInfinitiesAndWhatIsNoNumber) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* reduction : {"none", "add", "mul", "max", "min"})
    expect_matches_reference(
        {"ScatterElements",
         {Tensor::from<float>({5}, {1, nan, -inf, inf, 0}), Tensor::from<std::int64_t>({7}, {0, 1, 2, 3, 0, -2, 4}),
          Tensor::from<float>({7}, {nan, 1, inf, -inf, 3, 0, -0.0F})},
         attributes(0, reduction)});
}

TEST(CpuScatterElements, IntegersWrap) {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  for (const char* reduction : {"add", "mul"})
    expect_matches_reference(
        {"ScatterElements",
         {Tensor::from<std::int32_t>({2}, {most, -most}), Tensor::from<std::int64_t>({3}, {0, 1, 0}),
          Tensor::from<std::int32_t>({3}, {most, most, 3})},
         attributes(0, reduction)});
}

TEST(CpuScatterElements, RefusesWhatLiesOutside) {
  const Tensor data = random_tensor(DType::f32, {3, 4}, 1);
  for (const std::int64_t index : {3, -4}) {
    const OpCall call{"ScatterElements",
                      {data, Tensor::from<std::int64_t>({1, 1}, {index}), random_tensor(DType::f32, {1, 1}, 2)},
                      attributes(0)};
    for (const std::string device : {"reference", "cpu"}) EXPECT_THROW(run_op(call, device), Error);
  }
  // Rows of the indices beyond those of the data.
  const OpCall wide{"ScatterElements",
                    {data, Tensor::from<std::int64_t>({1, 5}, {0, 0, 0, 0, 0}), random_tensor(DType::f32, {1, 5}, 2)},
                    attributes(0)};
  for (const std::string device : {"reference", "cpu"}) EXPECT_THROW(run_op(wide, device), Error);
}

}  // namespace
}  // namespace tessera::test::scatter_elements_test
