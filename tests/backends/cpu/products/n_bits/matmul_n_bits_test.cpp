#include <gtest/gtest.h>

#include <cmath>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::matmul_n_bits_test {
namespace {

enum class Zeros { none, packed, real };

// The reference runs the parts: dequantisation, transposition, product and sum.
OpCall call(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t bits, std::int64_t block, Zeros zeros,
            bool with_bias) {
  const std::int64_t blocks = (k + block - 1) / block;
  const auto bytes = [](const Shape& shape, std::uint64_t seed) {
    return random_tensor(DType::u8, shape, seed, 0, 255);
  };
  Value zero, bias;
  if (zeros == Zeros::packed) zero = bytes({n, (blocks * bits + 7) / 8}, 3);
  if (zeros == Zeros::real) zero = random_tensor(DType::f32, {n, blocks}, 4, 0, 1 << bits);
  if (with_bias) bias = random_tensor(DType::f32, {n}, 5);
  return {"com.microsoft::MatMulNBits",
          {random_tensor(DType::f32, {m, k}, 1), bytes({n, blocks, block / 8 * bits}, 2),
           random_tensor(DType::f32, {n, blocks}, 6, 0.01, 0.1), zero, Value(), bias},
          {{"K", k}, {"N", n}, {"bits", bits}, {"block_size", block}}};
}

Tolerance tolerance(std::int64_t k, std::int64_t bits) {
  return {1e-5, 2e-7 * static_cast<double>(1 << bits) * std::sqrt(static_cast<double>(k))};
}

TEST(CpuMatMulNBits, MatchesReferenceForAFewRows) {
  for (const std::int64_t bits : {2, 4, 8}) {
    for (const std::int64_t block : {16, 32, 128}) {
      for (const Zeros zeros : {Zeros::none, Zeros::packed, Zeros::real}) {
        for (const std::int64_t m : {1, 2, 7, 20})
          expect_matches_reference(call(m, 19, 3 * block - 5, bits, block, zeros, m < 2), tolerance(3 * block, bits));
      }
    }
  }
}

TEST(CpuMatMulNBits, MatchesReferenceForManyRows) {
  for (const std::int64_t bits : {2, 4, 8}) {
    for (const Zeros zeros : {Zeros::none, Zeros::packed, Zeros::real}) {
      for (const auto& [m, n, k] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{21, 5, 40}, {33, 70, 520}}) {
        expect_matches_reference(call(m, n, k, bits, 32, zeros, true), tolerance(k, bits));
      }
    }
  }
}

TEST(CpuMatMulNBits, TakesBatchesVectorsAndNoRows) {
  OpCall batches = call(6, 8, 40, 4, 16, Zeros::packed, true);
  batches.inputs[0] = random_tensor(DType::f32, {2, 3, 40}, 7);
  expect_matches_reference(batches, tolerance(40, 4));
  batches.inputs[0] = random_tensor(DType::f32, {40}, 8);
  expect_matches_reference(batches, tolerance(40, 4));
  expect_matches_reference(call(0, 8, 40, 4, 16, Zeros::none, false));
}

TEST(CpuMatMulNBits, LeavesGroupsAndHalvesToTheirParts) {
  OpCall groups = call(2, 8, 32, 4, 16, Zeros::none, false);
  groups.inputs[4] = Tensor::from<std::int32_t>({32}, std::span<const std::int32_t>(std::vector<std::int32_t>(32, 1)));
  EXPECT_EQ(run_op_tensor(groups, "cpu").shape(), (Shape{2, 8}));
  EXPECT_TRUE(close_to(run_op_tensor(groups, "cpu"), run_op_tensor(groups, "reference"), tolerance(32, 4)));
}

}  // namespace
}  // namespace tessera::test::matmul_n_bits_test
