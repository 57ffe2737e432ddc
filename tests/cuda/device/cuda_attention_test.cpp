// Attention of the CUDA backend on the simulated driver, whose kernels run in the emulation, against the reference.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/backend_table.h"
#include "support/device_call.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"

namespace tessera::test::cuda_attention_test {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};

void expect_as_reference(const OpCall& call) {
  const Tensor actual = run_on_device(backends::find_device("cuda"), call), expected = run_op_tensor(call);
  EXPECT_TRUE(close_to(actual, expected, Tolerance::epsilons(expected.dtype(), 32)));
  EXPECT_TRUE(
      close_to(run_captured(backends::find_device("cuda"), call), actual, Tolerance::epsilons(expected.dtype(), 0)));
}

// Some of them infinitely low.
Tensor mask_of(DType type, const Shape& shape, std::uint64_t seed) {
  const Tensor numbers = random_tensor(DType::f32, shape, seed);
  Tensor mask(DType::f32, shape);
  for (std::int64_t i = 0; i < mask.elements(); ++i)
    mask.mutable_data<float>()[i] = numbers.data<float>()[i] > 0.3f ? -INFINITY : numbers.data<float>()[i];
  return run_op_tensor({"Cast", {mask}, {{"to", static_cast<std::int64_t>(type)}}});
}

TEST(CudaAttention, HeadsOfOddSizesAndManyKeys) {
  for (const DType type : kTypes) {
    for (const std::int64_t keys : {1, 7, 32, 75}) {
      for (const std::int64_t causal : {0, 1}) {
        expect_as_reference({"Attention",
                             {random_tensor(type, {2, 2, 5, 17}, 1), random_tensor(type, {2, 2, keys, 17}, 2),
                              random_tensor(type, {2, 2, keys, 40}, 3)},
                             {{"is_causal", causal}}});
      }
    }
  }
}

TEST(CudaAttention, PackedHeadsThatShareKeys) {
  for (const DType type : kTypes)
    expect_as_reference(
        {"Attention",
         {random_tensor(type, {2, 6, 4 * 8}, 1), random_tensor(type, {2, 9, 2 * 8}, 2),
          random_tensor(type, {2, 9, 2 * 3}, 3)},
         {{"q_num_heads", std::int64_t{4}}, {"kv_num_heads", std::int64_t{2}}, {"softcap", 0.5f}, {"scale", 0.7f}}});
}

TEST(CudaAttention, Masks) {
  const Tensor q = random_tensor(DType::f32, {2, 3, 4, 8}, 1), k = random_tensor(DType::f32, {2, 3, 40, 8}, 2),
               v = random_tensor(DType::f32, {2, 3, 40, 8}, 3);
  for (const Shape& shape : {Shape{40}, {4, 40}, {2, 1, 1, 40}, {1, 3, 4, 40}, {4, 33}}) {
    expect_as_reference({"Attention", {q, k, v, mask_of(DType::f32, shape, 4)}});
    const Tensor bools =
        run_op_tensor({"Greater", {random_tensor(DType::f32, shape, 5), Tensor::from<float>({}, {0})}});
    expect_as_reference({"Attention", {q, k, v, bools}});
  }
  Tensor replacement = random_tensor(DType::f32, {4, 40}, 6);
  for (std::int64_t i = 0; i < replacement.elements(); i += 2) replacement.mutable_data<float>()[i] = NAN;
  expect_as_reference({"Attention",
                       {q, k, v, mask_of(DType::f32, {40}, 4), Value(), Value(), Value(), replacement,
                        random_tensor(DType::f32, {4, 40}, 7)}});
}

// Queries for which no key counts, or a score is not-a-number.
TEST(CudaAttention, RowsWithoutALargestScore) {
  const Tensor q = random_tensor(DType::f32, {1, 1, 3, 8}, 1), k = random_tensor(DType::f32, {1, 1, 5, 8}, 2),
               v = random_tensor(DType::f32, {1, 1, 5, 8}, 3);
  Tensor mask(DType::f32, {3, 5});
  for (int i = 0; i < 15; ++i) mask.mutable_data<float>()[i] = i < 5 ? -INFINITY : i == 7 ? NAN : 0.0f;
  for (const std::int64_t rows : {0, 1, 2}) expect_as_reference({"Attention", {q, k, v, mask}, {{"nan_rows", rows}}});
}

}  // namespace
}  // namespace tessera::test::cuda_attention_test
