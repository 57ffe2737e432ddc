#include <gtest/gtest.h>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::dropout_kernel_test {
namespace {

// The same elements are dropped as on the reference device.
TEST(CpuDropout, MatchesReference) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{127}, Shape{128}, Shape{3, 43}, Shape{40'003}}) {
    for (const float ratio : {0.0f, 0.1f, 0.5f, 0.9f}) {
      for (const bool training : {false, true}) {
        const Tensor x = random_tensor(DType::f32, shape, 1);
        const OpCall call{
            "Dropout", {x, Tensor::scalar(ratio), Tensor::scalar(training)}, {{"seed", std::int64_t{7} << 33}}, 2};
        expect_matches_reference(call, Tolerance::epsilons(DType::f32, 2));
      }
    }
  }
}

TEST(CpuDropout, KeepsTheShareThatItShould) {
  constexpr std::int64_t kCount = 200'000;
  const OpCall call{"Dropout",
                    {random_tensor(DType::f32, {kCount}, 1), Tensor::scalar(0.25f), Tensor::scalar(true)},
                    {{"seed", std::int64_t{1}}},
                    2};
  const std::vector<Value> y = run_op(call, "cpu", 2);
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < kCount; ++i) kept += y[1].tensor().data<bool>()[i] ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(kept) / kCount, 0.75, 0.005);
}

}  // namespace
}  // namespace tessera::test::dropout_kernel_test
