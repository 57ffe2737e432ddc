#include "ops/values/unmask.h"

#include <gtest/gtest.h>

#include <set>

#include "ops/symbols.h"
#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::unmask_test {
namespace {

const std::vector<std::int64_t> kKey{0x12345678, 0x9ABCDEF1, 0x31415927, 0x27182819, 0x57721567, 3, 7, 11};

Tensor masked(const Tensor& plain) {
  Tensor result = plain.clone();
  ops::Mask::from(kKey).apply(plain.raw(), result.mutable_raw(), 0, static_cast<std::uint64_t>(plain.elements()));
  return result;
}

TEST(Unmask, GivesTheBitsBack) {
  for (const std::int64_t size : {1, 5, 40'003}) {
    Tensor plain(DType::f32, {size});
    for (std::int64_t i = 0; i < size; ++i) plain.mutable_data<float>()[i] = 0.01f * static_cast<float>(i) - 3;
    const Tensor hidden = masked(plain);
    EXPECT_FALSE(identical(hidden, plain));
    EXPECT_TRUE(identical(run_op_tensor({"tessera::Unmask", {hidden, Tensor::scalar(1.0f)}, {{"key", kKey}}}), plain));
  }
}

TEST(Unmask, GivesWeightsTheirShape) {
  const Tensor plain = Tensor::from<float>({6}, {1, 2, 3, 4, 5, 6});
  const std::vector<std::int64_t> shape{2, 3};
  const Tensor result =
      run_op_tensor({"tessera::Unmask", {masked(plain), Tensor::scalar(1.0f)}, {{"key", kKey}, {"shape", shape}}});
  EXPECT_TRUE(identical(result, plain.reshaped({2, 3})));
}

TEST(Unmask, NoiseLooksRandom) {
  const ops::Mask mask = ops::Mask::from(kKey);
  std::set<std::uint32_t> seen;
  std::int64_t ones = 0;
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    seen.insert(mask.noise(i));
    ones += __builtin_popcount(mask.noise(i));
  }
  EXPECT_GT(seen.size(), 9'990U);
  EXPECT_NEAR(static_cast<double>(ones) / 320'000, 0.5, 0.01);
}

TEST(Unmask, RefusesWhatCannotBeUnmasked) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{4}),
                      one = ir::ValueType::tensor(DType::f32, ir::Dims{});
  expect_error(ErrorKind::invalid_model,
               "the weights are masked, and there is neither a key nor a function to unmask them",
               [&] { infer_op("tessera::Unmask", {x, one}); });
  const std::vector<std::int64_t> few{1, 2}, shape{2, 3};
  expect_error(ErrorKind::invalid_model, "the key of a mask has 2 numbers, expected 8",
               [&] { infer_op("tessera::Unmask", {x, one}, {{"key", few}}); });
  expect_error(ErrorKind::invalid_model, "the shape of the weights does not have the elements of the masked ones",
               [&] { infer_op("tessera::Unmask", {x, one}, {{"key", kKey}, {"shape", shape}}); });
}

}  // namespace
}  // namespace tessera::test::unmask_test
