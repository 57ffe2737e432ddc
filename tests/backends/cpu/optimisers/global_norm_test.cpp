#include <gtest/gtest.h>

#include <cmath>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::global_norm_kernel_test {
namespace {

TEST(CpuGlobalNorm, MatchesReference) {
  OpCall call{"tessera::GlobalNorm", {Tensor::scalar(-0.5f)}};
  std::uint64_t seed = 0;
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{7, 9}, Shape{16'384}, Shape{40'003}, Shape{3, 5, 2}}) {
    call.inputs.push_back(random_tensor(DType::f32, shape, ++seed, -3, 3));
    expect_matches_reference(call, Tolerance::epsilons(DType::f32, 1));
  }
}

TEST(CpuGlobalNorm, IsFiniteWhereAllElementsAreAndTheResultFits) {
  const Tensor large = Tensor::from<float>({3}, {3e38f, -1e38f, 1e30f});
  for (const float scale : {1.0f, 0.125f, 4.0f})
    expect_matches_reference({"tessera::GlobalNorm", {Tensor::scalar(scale), large}},
                             Tolerance::epsilons(DType::f32, 1));
  for (const float wrong : {HUGE_VALF, -HUGE_VALF, NAN}) {
    Tensor x = random_tensor(DType::f32, {20'001}, 1);
    x.mutable_data<float>()[20'000] = wrong;
    expect_matches_reference({"tessera::GlobalNorm", {Tensor::scalar(0.5f), large, x}});
    const float norm = run_op_tensor({"tessera::GlobalNorm", {Tensor::scalar(0.5f), large, x}}, "cpu").data<float>()[0];
    EXPECT_FALSE(norm < HUGE_VALF);
  }
}

}  // namespace
}  // namespace tessera::test::global_norm_kernel_test
