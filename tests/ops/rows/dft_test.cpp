#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::dft_test {
namespace {

const Tensor kRamp = Tensor::from<float>({1, 4, 1}, {0, 1, 2, 3});
const Tolerance kClose = Tolerance::epsilons(DType::f32, 16);
const ir::Attributes kOnesided = {{"onesided", std::int64_t{1}}};

TEST(Dft, ForwardOfARealSignal) {
  EXPECT_TRUE(
      close_to(run_op_tensor({"DFT", {kRamp}}), Tensor::from<float>({1, 4, 2}, {6, 0, -2, 2, -2, 0, -2, -2}), kClose));
  EXPECT_TRUE(close_to(run_op_tensor({"DFT", {kRamp}, kOnesided}), Tensor::from<float>({1, 3, 2}, {6, 0, -2, 2, -2, 0}),
                       kClose));
  EXPECT_EQ(run_op_tensor({"DFT", {kRamp, Tensor::scalar<std::int64_t>(6)}}).shape(), (Shape{1, 6, 2}));
}

TEST(Dft, InverseUndoesForward) {
  const Tensor whole = run_op_tensor({"DFT", {kRamp}}), half = run_op_tensor({"DFT", {kRamp}, kOnesided});
  EXPECT_TRUE(close_to(run_op_tensor({"DFT", {whole}, {{"inverse", std::int64_t{1}}}}),
                       Tensor::from<float>({1, 4, 2}, {0, 0, 1, 0, 2, 0, 3, 0}), kClose));
  EXPECT_TRUE(close_to(run_op_tensor({"DFT", {half}, {{"inverse", std::int64_t{1}}, {"onesided", std::int64_t{1}}}}),
                       kRamp, kClose));
}

TEST(Dft, KeepsSymbols) {
  const ir::ValueType x =
      ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), ir::Dim::symbol("time"), 1});
  EXPECT_EQ(infer_op("DFT", {x})[0].dims, (ir::Dims{ir::Dim::symbol("batch"), ir::Dim::symbol("time"), 2}));
  EXPECT_EQ(infer_op("DFT", {x}, kOnesided)[0].dims, (ir::Dims{ir::Dim::symbol("batch"), ir::Dim(), 2}));
}

TEST(Dft, RefusesBadRequests) {
  expect_error(ErrorKind::invalid_model, "axis 2 holds the real and imaginary parts",
               [] { run_op({"DFT", {kRamp, {}, Tensor::scalar<std::int64_t>(-1)}}); });
  expect_error(ErrorKind::failed, "a transform of length -4",
               [] { run_op({"DFT", {kRamp, Tensor::scalar<std::int64_t>(-4)}}); });
}

TEST(Stft, WindowsEveryFrame) {
  const Tensor step = Tensor::scalar<std::int64_t>(2), window = Tensor::from<float>({2}, {1, 2});
  EXPECT_TRUE(close_to(run_op_tensor({"STFT", {kRamp, step, window}}),
                       Tensor::from<float>({1, 2, 2, 2}, {2, 0, -2, 0, 8, 0, -4, 0}), kClose));
  // A real signal may leave its last axis out.
  EXPECT_TRUE(close_to(run_op_tensor({"STFT", {kRamp.reshaped({1, 4}), step, window}}),
                       Tensor::from<float>({1, 2, 2, 2}, {2, 0, -2, 0, 8, 0, -4, 0}), kClose));
  expect_error(ErrorKind::failed, "frame_step is 0",
               [&] { run_op({"STFT", {kRamp, Tensor::scalar<std::int64_t>(0), window}}); });
  expect_error(ErrorKind::failed, "a frame of 5 in a signal of 4",
               [&] { run_op({"STFT", {kRamp, step, {}, Tensor::scalar<std::int64_t>(5)}}); });
}

}  // namespace
}  // namespace tessera::test::dft_test
