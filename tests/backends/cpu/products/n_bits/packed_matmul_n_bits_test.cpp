#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <tuple>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::packed_matmul_n_bits_test {
namespace {

constexpr std::string_view kRounding = "cpu_packed_matmul_n_bits";

enum class Zeros { none, packed, real };

OpCall call(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t bits, std::int64_t block, Zeros zeros,
            bool with_bias, std::int64_t accuracy = 4) {
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
          {{"K", k}, {"N", n}, {"bits", bits}, {"block_size", block}, {"accuracy_level", accuracy}}};
}

// Rounding to 8 bits moves an element by at most half of 1/127 of the largest one of its block, which is at most 1; the
// weights are at most 0.1 · 2^bits. Such errors of a sum of k products add up as a random walk does.
Tolerance rounded_tolerance(std::int64_t k, std::int64_t bits) {
  return {0, 1.0 / 254 * 0.1 * static_cast<double>(1 << bits) * std::sqrt(static_cast<double>(k)) * 2};
}

TEST(CpuPackedMatMulNBits, MatchesReferenceUpToTheRoundingOfActivations) {
  for (const std::int64_t bits : {2, 4, 8}) {
    for (const std::int64_t block : {16, 32, 128}) {
      for (const Zeros zeros : {Zeros::none, Zeros::packed, Zeros::real}) {
        for (const std::int64_t m : {1, 3, 40}) {
          SCOPED_TRACE(fmt::format("{} bits, blocks of {}, {} rows", bits, block, m));
          const std::int64_t k = 3 * block - (block > 32 ? 32 : 0);  // the last block of the weights is not whole
          expect_matches_reference(call(m, 37, k, bits, block, zeros, m > 1), rounded_tolerance(k, bits));
        }
      }
    }
  }
}

TEST(CpuPackedMatMulNBits, IsExactOnActivationsThatNeedNoRounding) {
  for (const auto& [bits, zeros] :
       {std::tuple{2, Zeros::packed}, {4, Zeros::none}, {4, Zeros::real}, {8, Zeros::packed}}) {
    OpCall given = call(5, 37, 96, bits, 32, zeros, true);
    Tensor& x = given.inputs[0].tensor();
    for (std::int64_t i = 0; i < x.elements(); ++i)  // whole numbers, one of each block 127
      x.mutable_data<float>()[i] = i % 32 == 0 ? 127 : static_cast<float>(i * 37 % 255 - 127);
    const Tensor found = run_op_tensor_by(given, kRounding), expected = run_op_tensor(given, "reference");
    EXPECT_TRUE(close_to(found, expected, Tolerance{1e-5, 2e-2})) << bits << " bits";
  }
}

TEST(CpuPackedMatMulNBits, RunsOnlyWhereTheModelAllowsIt) {
  for (std::int64_t accuracy = 0; accuracy <= 3; ++accuracy)
    EXPECT_EQ(chosen_cpu_kernel(call(2, 37, 96, 4, 32, Zeros::packed, false, accuracy)), "cpu_matmul_n_bits");
  EXPECT_EQ(chosen_cpu_kernel(call(2, 37, 96, 4, 32, Zeros::packed, false)), kRounding);
  EXPECT_EQ(chosen_cpu_kernel(call(2, 37, 100, 4, 32, Zeros::packed, false)), "cpu_matmul_n_bits");  // half a group
}

TEST(CpuPackedMatMulNBits, ARowHasTheSameBitsBesideAnyOthers) {
  const OpCall all = call(40, 37, 96, 4, 32, Zeros::packed, true);
  const Tensor together = run_op_tensor_by(all, kRounding);
  const Tensor& x = all.inputs[0].tensor();
  for (const std::int64_t row : {0, 17, 39}) {
    OpCall one = all;
    one.inputs[0] = Tensor::from<float>({1, 96}, x.values<float>().subspan(static_cast<std::size_t>(row * 96), 96));
    const Tensor alone = run_op_tensor_by(one, kRounding);
    EXPECT_EQ(std::memcmp(alone.raw(), together.data<float>() + row * 37, 37 * sizeof(float)), 0) << "row " << row;
  }
}

}  // namespace
}  // namespace tessera::test::packed_matmul_n_bits_test
