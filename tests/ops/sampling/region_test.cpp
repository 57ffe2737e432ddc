#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::region_test {
namespace {

const Tensor kMap = Tensor::from<float>({1, 1, 4, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
const Tensor kFirst = Tensor::from<std::int64_t>({1}, {0});

TEST(RoiAlign, AveragesSamples) {
  // Pixel centres span [0, 4) with half_pixel, so that the whole map averages to its mean.
  const Tensor whole = Tensor::from<float>({1, 4}, {0, 0, 4, 4});
  EXPECT_TRUE(close_to(run_op_tensor({"RoiAlign", {kMap, whole, kFirst}, {{"sampling_ratio", std::int64_t{4}}}}),
                       Tensor::from<float>({1, 1, 1, 1}, {7.5f}), Tolerance::epsilons(DType::f32, 8)));
}

TEST(RoiAlign, RefusesBrokenRegions) {
  const auto run = [](float right, std::int64_t batch) {
    return [=] {
      run_op({"RoiAlign",
              {kMap, Tensor::from<float>({1, 4}, {0, 0, right, 1}), Tensor::from<std::int64_t>({1}, {batch})}});
    };
  };
  expect_error(ErrorKind::failed, "batch index 1 is outside [0, 1)", run(1, 1));
  expect_error(ErrorKind::failed, "region 0 has a corner at inf", run(INFINITY, 0));
  expect_error(ErrorKind::over_budget,
               "a region of 1.0000000150474662e+30 pixels in 1 bins takes 1.0000000150474662e+30 samples a bin",
               run(1e30f, 0));
}

TEST(MaxRoiPool, TakesTheLargestOfEachBin) {
  const Tensor rois = Tensor::from<float>({1, 5}, {0, 0, 0, 3, 3});
  EXPECT_TRUE(
      identical(run_op_tensor({"MaxRoiPool", {kMap, rois}, {{"pooled_shape", std::vector<std::int64_t>{2, 2}}}}),
                Tensor::from<float>({1, 1, 2, 2}, {5, 7, 13, 15})));
  expect_error(ErrorKind::failed, "batch index -1 is outside [0, 1)", [] {
    run_op({"MaxRoiPool",
            {kMap, Tensor::from<float>({1, 5}, {-1, 0, 0, 1, 1})},
            {{"pooled_shape", std::vector<std::int64_t>{1, 1}}}});
  });
}

TEST(NonMaxSuppression, DropsOverlappingBoxes) {
  const Tensor boxes = Tensor::from<float>({1, 3, 4}, {0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 0, 10, 1, 11}),
               scores = Tensor::from<float>({1, 1, 3}, {0.9f, 0.75f, 0.95f});
  const Tensor most = Tensor::from<std::int64_t>({1}, {3}), overlap = Tensor::from<float>({1}, {0.5f}),
               score = Tensor::from<float>({1}, {0});
  EXPECT_TRUE(identical(run_op_tensor({"NonMaxSuppression", {boxes, scores, most, overlap, score}}),
                        Tensor::from<std::int64_t>({2, 3}, {0, 0, 2, 0, 0, 0})));
  EXPECT_EQ(run_op_tensor({"NonMaxSuppression", {boxes, scores}}).shape(), (Shape{0, 3}));
  expect_error(ErrorKind::invalid_model, "boxes [1, 3, 4] and scores [1, 1, 2] do not fit together",
               [&] { run_op({"NonMaxSuppression", {boxes, Tensor(DType::f32, {1, 1, 2})}}); });
}

}  // namespace
}  // namespace tessera::test::region_test
