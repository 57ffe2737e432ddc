#include "ops/sampling/resize_gradient.h"

#include <gtest/gtest.h>

#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "support/run_op.h"

namespace tessera::test::resize_gradient_test {
namespace {

struct ResizeCase {
  Shape input;
  std::vector<float> scales;
};
const ResizeCase kCases[] = {
    {{1, 3, 7, 9}, {1, 1, 2, 2}},
    {{2, 3, 7, 9}, {1, 1, 0.6f, 1.7f}},
    {{5, 70}, {1, 2}},
    {{5, 70}, {3, 1}},
    {{1, 4, 60, 70}, {1, 1, 2, 2}},
    {{1, 1, 1, 1}, {1, 1, 4, 3}},
    {{3, 4}, {1, 1}},
    {{1, 7, 9, 5}, {1, 2, 2, 1}},
    {{2, 3, 4, 5}, {1.5f, 2, 0.5f, 3}},
    {{9}, {0.34f}},
};

void check(const ResizeCase& one, const ir::Attributes& attributes) {
  const auto rank = static_cast<std::int64_t>(one.input.size());
  const Tensor scales = Tensor::from<float>({rank}, one.scales);
  const Shape resized =
      run_op_tensor({"Resize", {random_tensor(DType::f32, one.input, 1), Value(), scales}, attributes}).shape();
  expect_matches_reference({"tessera::ResizeGradient",
                            {random_tensor(DType::f32, resized, 2, -1, 1),
                             Tensor::from<std::int64_t>({rank}, std::span(one.input)), Value(), scales},
                            attributes},
                           Tolerance::epsilons(DType::f32, 64));
}

TEST(CpuResizeGradient, MatchesReference) {
  for (const ResizeCase& one : kCases) {
    for (const std::string coordinates : {"half_pixel", "align_corners", "asymmetric"}) {
      for (const std::string mode : {"nearest", "linear", "cubic"})
        check(one, {{"coordinate_transformation_mode", coordinates}, {"mode", mode}});
    }
    for (const std::string mode : {"linear", "cubic"}) {
      check(one, {{"mode", mode}, {"antialias", std::int64_t{1}}});
      check(one, {{"mode", mode}, {"exclude_outside", std::int64_t{1}}});
    }
  }
}

}  // namespace
}  // namespace tessera::test::resize_gradient_test
