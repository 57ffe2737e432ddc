// Products with weights that are mostly zero.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "backends/cpu/products/sparse/sparse_weights.h"
#include "ops/products/linear.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::backends::cpu::sparse_linear_test {
namespace {

using test::random_tensor;

enum class Zeros { anywhere, blocks, two_of_four };

Tensor sparse(std::int64_t outputs, std::int64_t inputs, bool transposed, Zeros zeros, double density) {
  Tensor weights = random_tensor(DType::f32, transposed ? Shape{outputs, inputs} : Shape{inputs, outputs}, 2);
  std::mt19937 generator(static_cast<unsigned>(outputs * 31 + inputs));
  std::vector<bool> kept(static_cast<std::size_t>((outputs / 16 + 1) * (inputs / 4 + 1)));
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = std::generate_canonical<double, 32>(generator) < density;
  for (std::int64_t j = 0; j < outputs; ++j) {
    for (std::int64_t k = 0; k < inputs; ++k) {
      bool keeps = std::generate_canonical<double, 32>(generator) < density;
      if (zeros == Zeros::two_of_four) keeps = (k + j) % 4 < 2;
      if (zeros == Zeros::blocks) keeps = kept[static_cast<std::size_t>(j / 16 * (inputs / 4 + 1) + k / 4)];
      if (!keeps) weights.mutable_data<float>()[transposed ? j * inputs + k : k * outputs + j] = 0;
    }
  }
  return weights;
}

TEST(SparseWeights, CountsWhatIsThere) {
  Tensor weights(DType::f32, {40, 24});  // [outputs, inputs]
  std::ranges::fill(weights.mutable_values<float>(), 0.0f);
  for (std::int64_t k = 0; k < 24; k += 2) weights.mutable_data<float>()[3 * 24 + k] = 1;
  const WeightMatrix matrix{weights.data<float>(), 24, 40, 1, 24};
  SparseCounts counts = count_sparse(matrix, 16);
  EXPECT_EQ(counts.nonzero, 12);
  EXPECT_EQ(counts.vectors, 3 * 24);
  EXPECT_EQ(counts.nonzero_vectors, 12);
  EXPECT_TRUE(counts.two_of_four);
  weights.mutable_data<float>()[3 * 24 + 21] = weights.mutable_data<float>()[3 * 24 + 23] = 1;
  EXPECT_FALSE(count_sparse(matrix, 16).two_of_four);
  EXPECT_TRUE(ops::may_be_sparse(weights));
  std::ranges::fill(weights.mutable_values<float>(), 1.0f);
  EXPECT_FALSE(ops::may_be_sparse(weights));
}

TEST(SparseWeights, AreDenseWhereNothingWins) {
  constexpr std::int64_t kVectors = 1 << 16;
  SparseCounts counts{.weights = 1 << 20, .vectors = kVectors, .nonzero_vectors = kVectors, .slots = kVectors};
  EXPECT_EQ(choose_form(counts, 1, 16), SparseForm::dense);
  counts.slots = kVectors / 5;
  EXPECT_EQ(choose_form(counts, 1, 16), SparseForm::segments);
  EXPECT_EQ(choose_form(counts, 1, 8), SparseForm::dense);
  counts.nonzero_vectors = kVectors / 8;
  EXPECT_EQ(choose_form(counts, 64, 16), SparseForm::blocks);
  counts.nonzero_vectors = counts.slots = kVectors;
  counts.two_of_four = true;
  EXPECT_EQ(choose_form(counts, 1, 16), SparseForm::two_of_four);
  EXPECT_EQ(choose_form(counts, 64, 16), SparseForm::dense);
}

struct Case {
  std::int64_t rows, inputs, outputs;
};

TEST(CpuSparseLinear, MatchesTheReference) {
  for (const auto& [rows, inputs, outputs] : {Case{1, 96, 64},
                                              {1, 131, 77},
                                              {2, 200, 33},
                                              {3, 65, 130},
                                              {4, 128, 48},
                                              {9, 70, 81},
                                              {1, 4096, 5},
                                              {2, 523, 517}}) {
    for (const bool transposed : {false, true}) {
      for (const Zeros zeros : {Zeros::anywhere, Zeros::blocks, Zeros::two_of_four}) {
        for (const double density : {0.02, 0.1, 0.25}) {
          if (inputs == 523 && density != 0.1) continue;  // large enough for every form
          SCOPED_TRACE(fmt::format("{} rows, {} inputs, {} outputs, {}, {}", rows, inputs, outputs,
                                   static_cast<int>(zeros), density));
          const Tensor weights = sparse(outputs, inputs, transposed, zeros, density);
          const Tensor x = random_tensor(DType::f32, {rows, inputs}, 1);
          const auto epsilons = test::Tolerance::epsilons(DType::f32, 8 + 2 * std::sqrt(static_cast<double>(inputs)));
          test::expect_matches_reference(
              {"tessera::Linear",
               {x, weights, random_tensor(DType::f32, {outputs}, 3), random_tensor(DType::f32, {rows, outputs}, 4)},
               {{"transB", std::int64_t{transposed}}, {"activation", std::string("Relu")}}},
              epsilons);
          test::expect_matches_reference({"Gemm",
                                          {x, weights, random_tensor(DType::f32, {1, outputs}, 3)},
                                          {{"transB", std::int64_t{transposed}}, {"alpha", 0.5f}, {"beta", -2.0f}}},
                                         epsilons);
          if (transposed) continue;
          test::expect_matches_reference({"MatMul", {x.reshaped({rows, 1, inputs}), weights}, {}}, epsilons);
        }
      }
    }
  }
}

// Products of rounded numbers are exact in float32, but sums of many are rounded.
TEST(CpuSparseLinear, MatchesTheReferenceInBfloat16) {
  for (const auto& [rows, inputs, outputs] : {Case{1, 131, 77}, Case{3, 200, 130}, Case{9, 160, 81}}) {
    for (const Zeros zeros : {Zeros::anywhere, Zeros::blocks, Zeros::two_of_four}) {
      for (const bool stored : {false, true}) {
        SCOPED_TRACE(fmt::format("{} rows, {} inputs, {} outputs, {}, {}", rows, inputs, outputs,
                                 static_cast<int>(zeros), stored));
        const DType type = stored ? DType::bf16 : DType::f32;
        test::OpCall call{
            "tessera::Linear",
            {random_tensor(type, {rows, inputs}, 1), sparse(outputs, inputs, true, zeros, 0.1),
             random_tensor(DType::f32, {outputs}, 3), random_tensor(type, {rows, outputs}, 4)},
            {{"transB", std::int64_t{1}}, {"activation", std::string("Relu")}, {"precision", std::string("bf16")}}};
        if (stored) call.attributes["output_dtype"] = static_cast<std::int64_t>(DType::bf16);
        const Tensor expected = test::run_op_tensor(call, "reference");
        for (const int threads : {1, 3})
          EXPECT_TRUE(test::close_to(
              test::run_op_tensor_by(call, "cpu_bf16_sparse_linear", threads), expected,
              stored ? test::Tolerance::epsilons(DType::bf16, 2) : test::Tolerance::epsilons(DType::f32, 64)));
      }
    }
  }
}

TEST(CpuSparseLinear, IsTakenInBfloat16WhereItIsExpectedToWin) {
  const auto chosen = [](Zeros zeros, double density, std::int64_t rows) {
    return test::chosen_cpu_kernel(
        {"tessera::Linear",
         {random_tensor(DType::f32, {rows, 512}, 1), sparse(512, 512, false, zeros, density)},
         {{"precision", std::string("bf16")}}});
  };
  EXPECT_EQ(chosen(Zeros::blocks, 0.1, 1), "cpu_bf16_sparse_linear");
  EXPECT_EQ(chosen(Zeros::anywhere, 0.02, 1), "cpu_bf16_sparse_linear");
  EXPECT_EQ(chosen(Zeros::anywhere, 0.6, 1), "cpu_bf16_linear");
  EXPECT_EQ(chosen(Zeros::anywhere, 1, 1), "cpu_bf16_linear");
}

TEST(CpuSparseLinear, IsTakenOnlyWhereItIsExpectedToWin) {
  const auto chosen = [](Zeros zeros, double density, std::int64_t rows) {
    return test::chosen_cpu_kernel(
        {"MatMul", {random_tensor(DType::f32, {rows, 512}, 1), sparse(512, 512, false, zeros, density)}, {}});
  };
  EXPECT_EQ(chosen(Zeros::blocks, 0.1, 1), "cpu_sparse_matmul");
  EXPECT_EQ(chosen(Zeros::blocks, 0.1, 64), "cpu_sparse_matmul");
  EXPECT_EQ(chosen(Zeros::anywhere, 0.02, 1), "cpu_sparse_matmul");
  EXPECT_EQ(chosen(Zeros::two_of_four, 0.5, 1), "cpu_sparse_matmul");
  EXPECT_EQ(chosen(Zeros::two_of_four, 0.5, 64), "cpu_matmul_f32");
  EXPECT_EQ(chosen(Zeros::anywhere, 0.6, 1), "cpu_matmul_f32");
  EXPECT_EQ(chosen(Zeros::anywhere, 1, 1), "cpu_matmul_f32");
}

}  // namespace
}  // namespace tessera::backends::cpu::sparse_linear_test
