#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::grid_sample_test {
namespace {

const Tensor kImage = Tensor::from<float>({1, 1, 2, 2}, {1, 2, 3, 4});
const Tolerance kClose = Tolerance::epsilons(DType::f32, 8);

Tensor sample(std::initializer_list<float> places, const char* mode, const char* padding) {
  return run_op_tensor({"GridSample",
                        {kImage, Tensor::from<float>({1, 1, static_cast<std::int64_t>(places.size()) / 2, 2}, places)},
                        {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}}});
}

TEST(GridSample, CentreAndCorners) {
  EXPECT_TRUE(close_to(sample({0, 0, -0.5f, -0.5f, 0.5f, -0.5f}, "linear", "zeros"),
                       Tensor::from<float>({1, 1, 1, 3}, {2.5f, 1, 2}), kClose));
  EXPECT_TRUE(close_to(sample({-0.5f, 0.5f}, "cubic", "border"), Tensor::from<float>({1, 1, 1, 1}, {3}), kClose));
}

TEST(GridSample, Padding) {
  EXPECT_TRUE(close_to(sample({-1, -1, 9, 9, NAN, 0}, "linear", "zeros"),
                       Tensor::from<float>({1, 1, 1, 3}, {0.25f, 0, 0}), kClose));
  EXPECT_TRUE(close_to(sample({-1, -1, 9, 9}, "linear", "border"), Tensor::from<float>({1, 1, 1, 2}, {1, 4}), kClose));
  EXPECT_TRUE(close_to(sample({1.5f, -0.5f, -1.5f, 0.5f}, "nearest", "reflection"),
                       Tensor::from<float>({1, 1, 1, 2}, {2, 3}), kClose));
}

TEST(GridSample, NearestTakesEveryType) {
  const Tensor places = Tensor::from<float>({1, 1, 3, 2}, {-0.5f, 0.5f, 0.5f, -0.5f, 9, 9});
  const ir::Attributes nearest{{"mode", std::string("nearest")}};
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  EXPECT_TRUE(identical(
      run_op_tensor({"GridSample", {Tensor::from<std::string>({1, 1, 2, 2}, {"a", "b", "c", "d"}), places}, nearest}),
      Tensor::from<std::string>({1, 1, 1, 3}, {"c", "b", ""})));
  EXPECT_TRUE(identical(
      run_op_tensor({"GridSample", {Tensor::from<std::int64_t>({1, 1, 2, 2}, {1, large, -large, 2}), places}, nearest}),
      Tensor::from<std::int64_t>({1, 1, 1, 3}, {-large, large, 0})));
}

TEST(GridSample, InterpolatesBothPartsOfComplexNumbers) {
  const auto x = Tensor::from<std::complex<double>>({1, 1, 2, 2}, {{1, 2}, {3, 4}, {5, 6}, {7, 12}});
  EXPECT_TRUE(identical(run_op_tensor({"GridSample", {x, Tensor::from<float>({1, 1, 1, 2}, {0, 0})}}),
                        Tensor::from<std::complex<double>>({1, 1, 1, 1}, {{4, 6}})));
}

TEST(GridSample, RefusesWrongGrids) {
  expect_error(ErrorKind::invalid_model, "mode is 'linear' for strings, expected nearest",
               [] { run_op({"GridSample", {Tensor(DType::string, {1, 1, 2, 2}), Tensor(DType::f32, {1, 1, 3, 2})}}); });
  expect_error(ErrorKind::invalid_model, "grid is [1, 1, 3], expected rank 4 and 2 in the last axis",
               [] { run_op({"GridSample", {kImage, Tensor(DType::f32, {1, 1, 3})}}); });
}

TEST(AffineGrid, IdentityGivesPixelCentres) {
  const Tensor theta = Tensor::from<float>({1, 2, 3}, {1, 0, 0, 0, 1, 0}),
               size = Tensor::from<std::int64_t>({4}, {1, 1, 2, 2});
  EXPECT_TRUE(close_to(run_op_tensor({"AffineGrid", {theta, size}}),
                       Tensor::from<float>({1, 2, 2, 2}, {-0.5f, -0.5f, 0.5f, -0.5f, -0.5f, 0.5f, 0.5f, 0.5f}),
                       kClose));
  EXPECT_TRUE(close_to(run_op_tensor({"AffineGrid", {theta, size}, {{"align_corners", std::int64_t{1}}}}),
                       Tensor::from<float>({1, 2, 2, 2}, {-1, -1, 1, -1, -1, 1, 1, 1}), kClose));
  expect_error(ErrorKind::invalid_model, "size has 3 elements, expected 4 or 5",
               [&] { run_op({"AffineGrid", {theta, Tensor::from<std::int64_t>({3}, {1, 1, 2})}}); });
}

}  // namespace
}  // namespace tessera::test::grid_sample_test
