#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::reduction_test {
namespace {

struct ReductionCase {
  Shape shape;
  std::vector<std::int64_t> axes;
};
const ReductionCase kCases[] = {
    {{7}, {0}},
    {{3, 1000}, {1}},
    {{3, 1000}, {0}},
    {{2, 5, 3, 37}, {2, 3}},
    {{2, 5, 3, 37}, {1}},
    {{2, 5, 3, 37}, {0, 2}},
    {{2, 5, 3, 37}, {1, 3}},
    {{3, 4, 5}, {}},
    {{1, 1}, {0}},
    {{300, 70}, {-1}},
    {{70, 300}, {0}},
    {{1, 100, 33, 2}, {3}},
    {{9001, 3}, {1}},
    {{5, 16}, {1}},
    {{40, 17}, {1}},
    {{2, 33, 1, 300}, {1}},
    {{4, 5}, {0, 1}},
    {{}, {}},
};
const char* const kOps[] = {"ReduceL1",  "ReduceL2",   "ReduceLogSum", "ReduceMax",      "ReduceMean",
                            "ReduceMin", "ReduceProd", "ReduceSum",    "ReduceSumSquare"};

Tensor axes_of(const std::vector<std::int64_t>& axes) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(axes.size())}, axes);
}

TEST(CpuReduction, MatchesReferenceOverAnyAxes) {
  for (const std::string op : kOps) {
    for (const ReductionCase& one : kCases) {
      // Positive and around 1, so that logarithms exist and products stay in range.
      const Tensor x = random_tensor(DType::f32, one.shape, 3, 0.9, 1.1);
      const Tolerance tolerance = Tolerance::epsilons(DType::f32, 4 + 2 * std::sqrt(static_cast<double>(x.elements())));
      for (const std::int64_t keepdims : {0, 1}) {
        expect_matches_reference({op, {x, axes_of(one.axes)}, {{"keepdims", keepdims}}}, tolerance);
      }
      expect_matches_reference({op, {x}, {{"noop_with_empty_axes", std::int64_t{1}}}}, tolerance);
    }
  }
}

TEST(CpuReduction, SignsAndEdgeValues) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from<float>({4, 3}, {-infinity, 0, -1, 3, nan, -2, infinity, 5, 1, -0.0f, -1e-40f, -7});
  for (const std::string op : {"ReduceL1", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare"}) {
    for (const std::int64_t axis : {0, 1})
      expect_matches_reference({op, {x, axes_of({axis})}}, Tolerance::epsilons(DType::f32, 4));
  }
}

// Each of the terms is small beside the sum, and none may be lost.
TEST(CpuReduction, LongSumsKeepTheirDigits) {
  const std::int64_t rows = 300'000;
  for (const std::int64_t columns : {1, 5, 300}) {
    Tensor x(DType::f32, {1, rows / columns, columns});
    std::fill_n(x.mutable_data<float>(), x.elements(), 0.1f);
    const Tensor mean = run_op_tensor({"ReduceMean", {x, Tensor::from<std::int64_t>({1}, {1})}}, "cpu", 2);
    for (const float value : mean.values<float>()) EXPECT_NEAR(value, 0.1f, 2e-7f);
  }
}

}  // namespace
}  // namespace tessera::test::reduction_test
