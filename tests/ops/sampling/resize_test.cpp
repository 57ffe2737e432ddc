#include <gtest/gtest.h>

#include <complex>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::resize_test {
namespace {

Tensor scales(std::initializer_list<float> values) {
  return Tensor::from<float>({static_cast<std::int64_t>(values.size())}, values);
}
Tensor sizes(std::initializer_list<std::int64_t> values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}
const Tensor kRow = Tensor::from<float>({1, 4}, {1, 2, 3, 4});
const Tolerance kClose = Tolerance::epsilons(DType::f32, 8);

TEST(Resize, NearestTakesEveryType) {
  const Tensor words = Tensor::from<std::string>({2}, {"a", "b"});
  EXPECT_TRUE(identical(run_op_tensor({"Resize", {words, {}, scales({2})}}),
                        Tensor::from<std::string>({4}, {"a", "a", "b", "b"})));
  EXPECT_TRUE(identical(run_op_tensor({"Resize", {kRow, {}, scales({1, 0.6f})}}), Tensor::from<float>({1, 2}, {1, 3})));
}

TEST(Resize, LinearCoordinates) {
  const auto linear = [](const char* coordinates) {
    return run_op_tensor(
        {"Resize",
         {kRow, {}, scales({1, 2})},
         {{"mode", std::string("linear")}, {"coordinate_transformation_mode", std::string(coordinates)}}});
  };
  EXPECT_TRUE(close_to(linear("half_pixel"),
                       Tensor::from<float>({1, 8}, {1, 1.25f, 1.75f, 2.25f, 2.75f, 3.25f, 3.75f, 4}), kClose));
  EXPECT_TRUE(close_to(linear("asymmetric"), Tensor::from<float>({1, 8}, {1, 1.5f, 2, 2.5f, 3, 3.5f, 4, 4}), kClose));
  EXPECT_TRUE(close_to(
      linear("align_corners"),
      Tensor::from<float>({1, 8}, {1, 10 / 7.0f, 13 / 7.0f, 16 / 7.0f, 19 / 7.0f, 22 / 7.0f, 25 / 7.0f, 4}), kClose));
}

TEST(Resize, InterpolatesBothPartsOfComplexNumbers) {
  const auto x = Tensor::from<std::complex<float>>({1, 2}, {{0, 4}, {2, 8}});
  EXPECT_TRUE(identical(run_op_tensor({"Resize", {x, {}, scales({1, 2})}, {{"mode", std::string("linear")}}}),
                        Tensor::from<std::complex<float>>({1, 4}, {{0, 4}, {0.5f, 5}, {1.5f, 7}, {2, 8}})));
}

TEST(Resize, AntialiasedDownsamplingAverages) {
  const Tensor y = run_op_tensor(
      {"Resize", {kRow, {}, {}, sizes({1, 1})}, {{"mode", std::string("linear")}, {"antialias", std::int64_t{1}}}});
  EXPECT_TRUE(close_to(y, Tensor::from<float>({1, 1}, {2.5f}), kClose));
}

TEST(Resize, KeepsTheAspectRatio) {
  const Tensor x(DType::f32, {2, 4});
  EXPECT_EQ(
      run_op_tensor({"Resize", {x, {}, {}, sizes({7, 8})}, {{"keep_aspect_ratio_policy", std::string("not_larger")}}})
          .shape(),
      (Shape{4, 8}));
  EXPECT_EQ(
      run_op_tensor({"Resize", {x, {}, {}, sizes({7, 8})}, {{"keep_aspect_ratio_policy", std::string("not_smaller")}}})
          .shape(),
      (Shape{7, 14}));
}

TEST(Resize, KeepsSymbolsOfUnscaledAxes) {
  const ir::ValueType x =
      ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 3, ir::Dim::symbol("height"), 8});
  const ir::ValueType four = ir::ValueType::tensor(DType::f32, Shape{4}),
                      none = ir::ValueType::tensor(DType::f32, Shape{0});
  EXPECT_EQ(infer_op("Resize", {x, none, four}, {}, 1, {{}, {}, scales({1, 1, 2, 2})})[0].dims,
            (ir::Dims{ir::Dim::symbol("batch"), 3, ir::Dim(), 16}));
}

TEST(Resize, RefusesBadRequests) {
  expect_error(ErrorKind::invalid_model, "1 scales for 2 axes", [] { run_op({"Resize", {kRow, {}, scales({2})}}); });
  expect_error(ErrorKind::invalid_model, "scale -1 of axis 1", [] { run_op({"Resize", {kRow, {}, scales({1, -1})}}); });
  expect_error(ErrorKind::over_budget, "a resized dimension of 4.000000060189865e+30",
               [] { run_op({"Resize", {kRow, {}, scales({1, 1e30f})}}); });
  expect_error(ErrorKind::invalid_model, "exactly one of scales and sizes must be given",
               [] { run_op({"Resize", {kRow}}); });
  expect_error(ErrorKind::failed, "cannot resize [0] to [2]",
               [] { run_op({"Resize", {Tensor(DType::f32, {0}), {}, {}, sizes({2})}}); });
}

}  // namespace
}  // namespace tessera::test::resize_test
