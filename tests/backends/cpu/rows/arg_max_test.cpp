#include <gtest/gtest.h>

#include <limits>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::arg_max_test {
namespace {

TEST(CpuArgMax, MatchesReference) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::string op : {"ArgMax", "ArgMin"}) {
    for (const std::int64_t last : {0, 1}) {
      for (const Shape& shape :
           {Shape{7}, Shape{37, 1}, Shape{61, 16}, Shape{5, 17}, Shape{3, 1001}, Shape{4, 33, 5}, Shape{40, 2000}}) {
        for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
          // Few distinct values, so that there are ties.
          Tensor x = random_tensor(DType::f32, shape, 1, -9, 9);
          for (float& value : x.mutable_values<float>()) value = static_cast<float>(static_cast<int>(value));
          expect_matches_reference({op, {x}, {{"axis", axis}, {"select_last_index", last}, {"keepdims", last}}});
        }
      }
      for (const std::vector<float>& values :
           {std::vector<float>{nan, 1, 2}, {1, nan, 2}, {2, 1, nan}, {nan, nan, nan}}) {
        expect_matches_reference({op, {Tensor::from<float>({3}, values)}, {{"select_last_index", last}}});
      }
    }
  }
}

TEST(CpuCumulative, CumSumMatchesReference) {
  for (const DType type : {DType::f32, DType::i32, DType::i64}) {
    for (const std::int64_t exclusive : {0, 1}) {
      for (const std::int64_t axis : {0, 1, -1}) {
        const ir::Attributes attributes = {{"exclusive", exclusive}, {"reverse", std::int64_t{axis == 1}}};
        expect_matches_reference(
            {"CumSum", {random_tensor(type, {5, 67, 3}, 1, -9, 9), Tensor::scalar<std::int64_t>(axis)}, attributes},
            Tolerance::epsilons(DType::f32, 1));
      }
    }
  }
}

}  // namespace
}  // namespace tessera::test::arg_max_test
