#include <gtest/gtest.h>

#include <limits>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::softmax_test {
namespace {

TEST(CpuSoftmax, MatchesReferenceAlongEveryAxis) {
  for (const std::string op : {"Softmax", "LogSoftmax"}) {
    for (const Shape& shape : {Shape{7}, Shape{3, 1000}, Shape{2, 19, 67}, Shape{2, 5, 3, 33}, Shape{300, 1},
                               Shape{3, 0}, Shape{200, 130}, Shape{37, 4}, Shape{5, 16}}) {
      for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
        expect_matches_reference({op, {random_tensor(DType::f32, shape, 1, -20, 20)}, {{"axis", axis}}},
                                 Tolerance::epsilons(DType::f32, 40));
      }
    }
  }
}

TEST(CpuSoftmax, EdgeValues) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x =
      Tensor::from<float>({4, 3}, {-infinity, 0, 1, 3e38f, 1, -3e38f, nan, 0, 1, -infinity, -infinity, -infinity});
  for (const std::int64_t axis : {0, 1})
    expect_matches_reference({"Softmax", {x}, {{"axis", axis}}}, Tolerance::epsilons(DType::f32, 4));
}

}  // namespace
}  // namespace tessera::test::softmax_test
