#include <gtest/gtest.h>

#include <limits>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::typed_reduction_test {
namespace {

struct ReductionCase {
  Shape shape;
  std::vector<std::int64_t> axes;
};
const ReductionCase kCases[] = {
    {{7}, {0}},           {{3, 1000}, {1}},        {{3, 1000}, {0}},        {{2, 5, 3, 37}, {2, 3}},
    {{2, 5, 3, 37}, {1}}, {{2, 5, 3, 37}, {0, 2}}, {{2, 5, 3, 37}, {1, 3}}, {{3, 4, 5}, {}},
    {{1, 1}, {0}},        {{70, 300}, {0}},        {{2, 33, 1, 300}, {1}},  {{9001, 3}, {1}},
    {{9001, 3}, {0}},     {{50'021}, {0}},         {{3, 7, 4001}, {0, 2}},  {{}, {}},
};

Tensor axes_of(const std::vector<std::int64_t>& axes) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(axes.size())}, axes);
}

void expect_matches(const std::string& op, DType type, double low, double high, Tolerance tolerance = {}) {
  for (const ReductionCase& one : kCases) {
    const Tensor x = random_tensor(type, one.shape, 3, low, high);
    for (const std::int64_t keepdims : {0, 1})
      expect_matches_reference({op, {x, axes_of(one.axes)}, {{"keepdims", keepdims}}}, tolerance);
    if (one.axes.empty()) expect_matches_reference({op, {x}, {{"noop_with_empty_axes", std::int64_t{1}}}}, tolerance);
  }
}

// Sums and products wrap; what leaves the integers is truncated.
TEST(CpuTypedReduction, IntegersMatchReference) {
  for (const DType type : {DType::i32, DType::i64, DType::u32, DType::u64}) {
    const double low = is_unsigned_integer(type) ? 0 : -1e9;
    for (const std::string op : {"ReduceL1", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"})
      expect_matches(op, type, low, 1e9);
    for (const std::string op : {"ReduceL2", "ReduceLogSum", "ReduceMean"}) expect_matches(op, type, 1, 1000);
  }
}

TEST(CpuTypedReduction, ExtremesOfBytesAndBools) {
  for (const std::string op : {"ReduceMax", "ReduceMin"}) {
    expect_matches(op, DType::i8, -128, 127);
    expect_matches(op, DType::u8, 0, 255);
    expect_matches(op, DType::boolean, 0, 2);
  }
}

TEST(CpuTypedReduction, DoublesMatchReference) {
  for (const std::string op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceMax", "ReduceMean", "ReduceMin",
                               "ReduceProd", "ReduceSum", "ReduceSumSquare"})
    expect_matches(op, DType::f64, 0.9999, 1.0001, Tolerance::epsilons(DType::f64, 1000));
}

TEST(CpuTypedReduction, NanWinsOverNumbers) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Tensor x = random_tensor(DType::f64, {4, 333}, 3, -9, 9);
  double* values = x.mutable_data<double>();
  values[200] = nan, values[333 + 7] = infinity, values[2 * 333 + 332] = -infinity, values[3 * 333] = nan;
  for (const std::string op : {"ReduceL1", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"}) {
    for (const std::int64_t axis : {0, 1})
      expect_matches_reference({op, {x, axes_of({axis})}}, Tolerance::epsilons(DType::f64, 1000));
  }
}

}  // namespace
}  // namespace tessera::test::typed_reduction_test
