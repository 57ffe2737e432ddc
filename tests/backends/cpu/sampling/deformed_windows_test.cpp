#include <gtest/gtest.h>

#include <cmath>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::deformed_windows_test {
namespace {

Tensor random_floats(const Shape& shape, std::uint64_t seed, double reach = 2) {
  return random_tensor(DType::f32, shape, seed, -reach, reach);
}

struct Case {
  Shape x, windows;  // of the output
  std::vector<std::int64_t> kernel, strides, pads, dilations;
  std::int64_t groups = 1;
  bool mask = true;
};

void check(const Case& c) {
  const std::int64_t taps = c.kernel[0] * c.kernel[1] * c.groups;
  const Tensor x = random_floats(c.x, 1),
               offset = random_floats({c.x[0], 2 * taps, c.windows[0], c.windows[1]}, 2, 2.5);
  const ir::Attributes how{{"kernel_shape", c.kernel},
                           {"strides", c.strides},
                           {"pads", c.pads},
                           {"dilations", c.dilations},
                           {"offset_group", c.groups}};
  const Tensor dy = random_floats({c.x[0], c.x[1] * c.kernel[0] * c.kernel[1], c.windows[0] * c.windows[1]}, 3);
  std::vector<Value> operands{x, offset}, gradient_operands{x, offset, dy};
  if (c.mask) {
    operands.emplace_back(random_floats({c.x[0], taps, c.windows[0], c.windows[1]}, 4));
    gradient_operands.push_back(operands.back());
  }
  expect_matches_reference({"tessera::DeformedWindows", operands, how}, Tolerance::epsilons(DType::f32, 32));
  expect_matches_reference(
      {"tessera::DeformedWindowsGradient", gradient_operands, how, static_cast<std::size_t>(c.mask ? 3 : 2)},
      Tolerance::epsilons(DType::f32, 512));
}

TEST(CpuDeformedWindows, MatchesReference) {
  check({{1, 1, 3, 3}, {3, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}});
  check({{2, 6, 7, 9}, {4, 9}, {3, 3}, {2, 1}, {1, 1, 1, 1}, {1, 1}, 2});
  check({{1, 12, 13, 5}, {9, 4}, {3, 2}, {1, 1}, {0, 0, 0, 0}, {2, 1}, 3, false});
  check({{1, 9, 11, 17}, {11, 17}, {5, 3}, {1, 1}, {2, 1, 2, 1}, {1, 1}, 1});
}

TEST(CpuDeformedWindows, ReadsNothingWhereOffsetsAreNoNumbers) {
  Tensor offset = random_floats({1, 8, 2, 2}, 2, 0.5);
  offset.mutable_data<float>()[0] = NAN;
  offset.mutable_data<float>()[5] = INFINITY;
  offset.mutable_data<float>()[9] = -1e30f;
  expect_matches_reference({"tessera::DeformedWindows",
                            {random_floats({1, 2, 3, 3}, 1), offset},
                            {{"kernel_shape", std::vector<std::int64_t>{2, 2}}}},
                           Tolerance::epsilons(DType::f32, 16));
}

}  // namespace
}  // namespace tessera::test::deformed_windows_test
