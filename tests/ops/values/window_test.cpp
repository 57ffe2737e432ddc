#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::window_test {
namespace {

Tensor window(const char* op, std::int64_t size, std::int64_t periodic) {
  return run_op_tensor({op, {Tensor::scalar(size)}, {{"periodic", periodic}}});
}
const Tolerance kClose = Tolerance::epsilons(DType::f32, 4);

TEST(Window, PeriodicAndSymmetric) {
  EXPECT_TRUE(close_to(window("HannWindow", 4, 1), Tensor::from<float>({4}, {0, 0.5f, 1, 0.5f}), kClose));
  EXPECT_TRUE(close_to(window("HannWindow", 3, 0), Tensor::from<float>({3}, {0, 1, 0}), kClose));
  EXPECT_TRUE(close_to(window("HammingWindow", 2, 1), Tensor::from<float>({2}, {4 / 46.0f, 1}), kClose));
  EXPECT_TRUE(close_to(window("BlackmanWindow", 3, 0), Tensor::from<float>({3}, {0, 1, 0}), kClose));
  EXPECT_TRUE(identical(window("HannWindow", 1, 0), Tensor::from<float>({1}, {1})));
}

TEST(Window, RefusesBadSizes) {
  expect_error(ErrorKind::failed, "size is -1", [] { window("HannWindow", -1, 1); });
  expect_error(ErrorKind::failed, "size is 9223372036854775807", [] { window("HannWindow", INT64_MAX, 1); });
}

TEST(MelWeightMatrix, TrianglesOverTheBins) {
  const auto integer = [](std::int64_t value) { return Tensor::scalar(value); };
  const Tensor y = run_op_tensor(
      {"MelWeightMatrix", {integer(2), integer(16), integer(8192), Tensor::scalar(0.0f), Tensor::scalar(4096.0f)}});
  EXPECT_EQ(y.shape(), (Shape{9, 2}));
  EXPECT_EQ(y.data<float>()[0], 1.0f);  // the first triangle has no width on its left
  expect_error(ErrorKind::failed, "sample_rate is 0", [&] {
    run_op({"MelWeightMatrix", {integer(2), integer(16), integer(0), Tensor::scalar(0.0f), Tensor::scalar(1.0f)}});
  });
}

}  // namespace
}  // namespace tessera::test::window_test
