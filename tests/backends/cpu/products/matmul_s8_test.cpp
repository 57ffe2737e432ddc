#include <gtest/gtest.h>

#include <array>

#include "backends/cpu/machine/large_operands.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/windows/indirect_product_s8.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::matmul_s8_test {
namespace {

// Every instruction set and number of threads must equal the reference.
void check(const test::OpCall& call) {
  const Tensor expected = test::run_op_tensor(call, "reference");
  for (const Extensions extensions : kAllExtensions) {
    for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
      const ScopedIsa scoped(isa, extensions);
      for (const int threads : {1, 2, 3}) {
        EXPECT_TRUE(identical(test::run_op_tensor(call, "cpu", threads), expected)) << "isa " << static_cast<int>(isa);
      }
    }
  }
}

Tensor bytes(DType type, Shape shape, std::uint64_t seed) {
  return test::random_tensor(type, shape, seed, type == DType::u8 ? 0 : -128, type == DType::u8 ? 255 : 127);
}

TEST(CpuMatMulInteger, AllSignsAndOddSizes) {
  for (const DType a : {DType::u8, DType::i8}) {
    for (const DType b : {DType::u8, DType::i8}) {
      check({"MatMulInteger", {bytes(a, {13, 7}, 1), bytes(b, {7, 35}, 2)}});
      check({"MatMulInteger", {bytes(a, {2, 3, 64}, 3), bytes(b, {64, 33}, 4), bytes(a, {}, 5), bytes(b, {33}, 6)}});
      check({"MatMulInteger", {bytes(a, {5, 9}, 3), bytes(b, {9, 4}, 4), bytes(a, {5}, 5), bytes(b, {1}, 6)}});
    }
  }
}

TEST(CpuMatMulInteger, ExtremesAndVectors) {
  const Tensor a = Tensor::from<std::uint8_t>({2, 5}, std::vector<std::uint8_t>(10, 255));
  const Tensor b = Tensor::from<std::int8_t>({5, 3}, std::vector<std::int8_t>(15, -128));
  check({"MatMulInteger", {a, b}});
  check({"MatMulInteger", {bytes(DType::u8, {6}, 1), bytes(DType::i8, {6, 3}, 2)}});
  check({"MatMulInteger", {bytes(DType::u8, {2, 6}, 1), bytes(DType::i8, {6}, 2)}});
  check({"MatMulInteger", {bytes(DType::u8, {0, 6}, 1), bytes(DType::i8, {6, 3}, 2)}});
}

// Neighbouring weights whose products with any bytes sum to 16 bits, just so, and just not.
TEST(CpuMatMulInteger, NeighboursThatFitInSixteenBits) {
  const Tensor a = Tensor::from<std::uint8_t>({3, 8}, std::vector<std::uint8_t>(24, 255));
  for (const auto& [weights, fit] : {std::pair{std::array{64, 64}, true},
                                     {std::array{-64, -64}, true},
                                     {std::array{127, 1}, true},
                                     {std::array{127, -128}, true},
                                     {std::array{65, 64}, false},
                                     {std::array{-1, -128}, false}}) {
    const std::vector<std::int8_t> neighbours(weights.begin(), weights.end());
    EXPECT_EQ(s8_pairs_fit(neighbours.data(), 2), fit);
    std::vector<std::int8_t> b;
    for (int row = 0; row < 8; ++row) b.insert(b.end(), 33, neighbours[row % 2]);
    check({"MatMulInteger", {a, Tensor::from<std::int8_t>({8, 33}, b)}});
  }
  check({"MatMulInteger",
         {bytes(DType::u8, {27, 130}, 1), test::random_tensor(DType::i8, {130, 77}, 2, -64, 64),
          bytes(DType::u8, {}, 3)}});
}

TEST(CpuMatMulInteger, ManyTiles) {
  check({"MatMulInteger", {bytes(DType::u8, {100, 300}, 1), bytes(DType::i8, {300, 250}, 2), bytes(DType::u8, {}, 3)}});
}

TEST(CpuMatMulInteger, DeepProductsInParts) {
  const ScopedLargeOperands small(0);
  check(
      {"MatMulInteger", {bytes(DType::u8, {400, 2101}, 1), bytes(DType::i8, {2101, 47}, 2), bytes(DType::u8, {}, 3)}});
  check({"MatMulInteger",
         {bytes(DType::u8, {800, 2100}, 1), bytes(DType::i8, {2100, 70}, 2), bytes(DType::u8, {800}, 3),
          bytes(DType::i8, {70}, 4)}});
}

// At least 64 tiles of rows and 512 KB of data, fewer than weights. With one instruction set, as they all split
// products alike.
TEST(CpuMatMulInteger, ManyRowsAndMoreWeightsThanData) {
  const test::OpCall call{"MatMulInteger",
                          {bytes(DType::u8, {770, 685}, 1), bytes(DType::i8, {685, 790}, 2), bytes(DType::u8, {}, 3)}};
  const Tensor expected = test::run_op_tensor(call, "reference");
  for (const int threads : {1, 2})
    EXPECT_TRUE(identical(test::run_op_tensor(call, "cpu", threads), expected)) << threads;
}

TEST(CpuMatMulInteger, RowsThatWouldShareSetsOfTheCache) {
  check(
      {"MatMulInteger", {bytes(DType::u8, {14, 4096}, 1), bytes(DType::i8, {4096, 260}, 2), bytes(DType::u8, {}, 3)}});
}

TEST(CpuQLinearMatMul, ScalesOfTensorAndColumn) {
  const Tensor a_scale = Tensor::scalar(0.02f), y_scale = Tensor::scalar(0.9f);
  const Tensor scales = test::random_tensor(DType::f32, {17}, 4, 0.01, 0.05);
  for (const DType y : {DType::u8, DType::i8}) {
    const Tensor y_zero = bytes(y, {}, 9);
    const Tensor a = bytes(DType::u8, {7, 12}, 1), b = bytes(DType::i8, {12, 17}, 2);
    const Tensor a_zero = bytes(DType::u8, {}, 3);
    check({"QLinearMatMul", {a, a_scale, a_zero, b, a_scale, bytes(DType::i8, {}, 5), y_scale, y_zero}});
    check({"QLinearMatMul", {a, a_scale, a_zero, b, scales, bytes(DType::i8, {17}, 6), y_scale, y_zero}});
  }
}

}  // namespace
}  // namespace tessera::backends::cpu::matmul_s8_test
