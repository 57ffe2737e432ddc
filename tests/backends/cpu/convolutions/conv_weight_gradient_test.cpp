#include <gtest/gtest.h>

#include "ops/channels_last.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "support/run_op.h"

namespace tessera::backends::cpu::conv_weight_gradient_test {
namespace {

using test::random_tensor;
using Integers = std::vector<std::int64_t>;

// x and g with the channels first; for either order.
void check(const Shape& x, const Shape& g, ir::Attributes attributes) {
  SCOPED_TRACE(to_string(x) + " and " + to_string(g));
  const double terms = static_cast<double>(element_count(g)) / static_cast<double>(g[1]);
  const auto tolerance = test::Tolerance::epsilons(DType::f32, 8 + terms);
  test::expect_matches_reference(
      {"tessera::ConvWeightGradient", {random_tensor(DType::f32, x, 1), random_tensor(DType::f32, g, 2)}, attributes},
      tolerance);
  test::expect_matches_reference(
      {"tessera::ChannelsLastConvWeightGradient",
       {random_tensor(DType::f32, ops::channels_last(x), 3), random_tensor(DType::f32, ops::channels_last(g), 4)},
       attributes},
      tolerance);
}

TEST(CpuConvWeightGradient, Pointwise) {
  check({2, 7, 5, 9}, {2, 13, 5, 9}, {{"kernel_shape", Integers{1, 1}}});
  check({3, 40, 30}, {3, 70, 30}, {{"kernel_shape", Integers{1}}});
  check({2, 5, 8, 7}, {2, 33, 4, 3}, {{"kernel_shape", Integers{1, 1}}, {"strides", Integers{2, 3}}});
}

TEST(CpuConvWeightGradient, Windows) {
  check({2, 3, 50}, {2, 5, 50}, {{"kernel_shape", Integers{4}}, {"pads", Integers{2, 1}}});
  check({2, 36, 17, 17}, {2, 33, 17, 17}, {{"kernel_shape", Integers{3, 3}}, {"pads", Integers{1, 1, 1, 1}}});
  check({1, 70, 9, 6}, {1, 100, 9, 6}, {{"kernel_shape", Integers{3, 3}}, {"pads", Integers{0, 1, 2, 1}}});
  check({1, 17, 4, 5, 6}, {1, 20, 6, 3, 5},
        {{"kernel_shape", Integers{2, 3, 3}}, {"pads", Integers{1, 0, 1, 2, 0, 0}}});
}

TEST(CpuConvWeightGradient, StridesDilationsAndGroups) {
  check({2, 18, 15, 12}, {2, 20, 8, 6},
        {{"kernel_shape", Integers{3, 3}}, {"strides", Integers{2, 2}}, {"pads", Integers{1, 1, 1, 1}}});
  check({1, 9, 20, 41}, {1, 8, 21, 13},
        {{"kernel_shape", Integers{3, 5}},
         {"strides", Integers{1, 3}},
         {"dilations", Integers{2, 3}},
         {"pads", Integers{2, 6, 3, 5}}});
  check({2, 8, 11, 11}, {2, 18, 7, 9}, {{"kernel_shape", Integers{5, 3}}, {"group", std::int64_t{2}}});
}

TEST(CpuConvWeightGradient, Depthwise) {
  check({3, 70, 9, 8}, {3, 70, 9, 8},
        {{"kernel_shape", Integers{3, 3}}, {"pads", Integers{1, 1, 1, 1}}, {"group", std::int64_t{70}}});
  check({18, 64, 9, 8}, {18, 64, 4, 3},
        {{"kernel_shape", Integers{3, 5}},
         {"strides", Integers{2, 2}},
         {"pads", Integers{0, 1, 0, 1}},
         {"group", std::int64_t{64}}});
  check({1, 5, 30}, {1, 5, 28},
        {{"kernel_shape", Integers{2}}, {"dilations", Integers{2}}, {"group", std::int64_t{5}}});
}

TEST(CpuConvWeightGradient, PaddingWiderThanTheData) {
  check({1, 2, 3, 2}, {1, 3, 6, 11}, {{"kernel_shape", Integers{7, 9}}, {"pads", Integers{5, 9, 4, 8}}});
}

}  // namespace
}  // namespace tessera::backends::cpu::conv_weight_gradient_test
