#include "backends/cpu/products/gemm_f32.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cpu/element_wise/element_wise_unary.h"
#include "backends/cpu/machine/simd.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::gemm_f32_test {
namespace {

using test::close_to;
using test::random_tensor;
using test::Tolerance;

constexpr base::Isa kIsas[] = {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512};

Tensor expected_product(const Tensor& a, const Tensor& b, const Epilogue& epilogue) {
  const std::int64_t m = a.shape()[0], k = a.shape()[1], n = b.shape()[1];
  Tensor c(DType::f32, {m, n});
  const float *left = a.data<float>(), *right = b.data<float>();
  float* to = c.mutable_data<float>();
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(left[i * k + l]) * static_cast<double>(right[l * n + j]);
      sum *= static_cast<double>(epilogue.scale);
      if (epilogue.bias != nullptr) sum += static_cast<double>(epilogue.bias[j]);
      if (epilogue.addend != nullptr) {
        sum += static_cast<double>(epilogue.addend_scale *
                                   epilogue.addend[i * epilogue.addend_row_stride + j * epilogue.addend_column_stride]);
      }
      if (epilogue.activation == Activation::relu) sum = std::max(sum, 0.0);
      if (epilogue.activation == Activation::clip)
        sum = std::clamp(sum, static_cast<double>(epilogue.low), static_cast<double>(epilogue.high));
      to[i * n + j] = static_cast<float>(sum);
    }
  }
  return c;
}

Tensor transposed(const Tensor& x) {
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  Tensor y(DType::f32, {columns, rows});
  for (std::int64_t i = 0; i < rows * columns; ++i)
    y.mutable_data<float>()[i % columns * rows + i / columns] = x.data<float>()[i];
  return y;
}

void copy_columns(const void* state, std::int64_t k_begin, std::int64_t k, std::int64_t column, std::int64_t width,
                  float* to, std::int64_t stride) {
  const auto& b = *static_cast<const Tensor*>(state);
  for (std::int64_t row = 0; row < k; ++row) {
    for (std::int64_t j = 0; j < stride; ++j)
      to[row * stride + j] = j < width ? b.data<float>()[(k_begin + row) * b.shape()[1] + column + j] : 0.0f;
  }
}

// Every way to hand over each operand must give the same bits, and the right values.
void check(std::int64_t m, std::int64_t n, std::int64_t k, const Epilogue& epilogue = {}) {
  SCOPED_TRACE(fmt::format("m={} n={} k={}", m, n, k));
  const Tensor a = random_tensor(DType::f32, {m, k}, 1), b = random_tensor(DType::f32, {k, n}, 2);
  const Tensor a_transposed = transposed(a), b_transposed = transposed(b);
  std::vector<float> packed_a(static_cast<std::size_t>(gemm_f32_left_bytes(m, k) / 4)),
      packed_b(static_cast<std::size_t>(gemm_f32_right_bytes(k, n) / 4));
  const GemmOperand lefts[] = {GemmOperand::strided(a.data<float>(), k, 1),
                               GemmOperand::strided(a_transposed.data<float>(), 1, m),
                               GemmOperand::prepacked(packed_a.data())};
  const GemmOperand rights[] = {GemmOperand::strided(b.data<float>(), n, 1),
                                GemmOperand::strided(b_transposed.data<float>(), 1, k),
                                GemmOperand::prepacked(packed_b.data()), GemmOperand::on_the_fly(copy_columns, &b)};
  gemm_f32_pack_left(lefts[1], m, k, packed_a.data());
  gemm_f32_pack_right(rights[1], k, n, packed_b.data());
  const Tensor expected = expected_product(a, b, epilogue);
  Tensor first;
  int threads = 0;
  for (const GemmOperand& left : lefts) {
    for (const GemmOperand& right : rights) {
      Tensor c = Tensor::from<float>({m, n}, std::vector<float>(static_cast<std::size_t>(m * n), NAN));
      const GemmF32 gemm({m, n, k}, left.packed, right.packed);
      const GemmF32::Split split = gemm.split(++threads % 5);
      for (std::int64_t tile = split.tiles() - 1; tile >= 0; --tile)
        gemm.run(split, tile, left, right, c.mutable_data<float>(), n, epilogue);
      if (!first.has_value()) {
        first = c;
        EXPECT_TRUE(close_to(c, expected, Tolerance::epsilons(DType::f32, 4 + 0.4 * static_cast<double>(k))));
      }
      EXPECT_TRUE(identical(c, first));
    }
  }
}

TEST(GemmF32, AllLayoutsAndOddSizes) {
  for (const base::Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    check(1, 1, 1);
    check(5, 33, 7);
    check(12, 32, 16);
    check(13, 31, 385);
    check(25, 70, 3);
    check(3, 5, 800);
    check(23, 40, 1030);
    check(49, 33, 18);
    check(1, 100, 50);
    check(40, 1, 50);
  }
}

TEST(GemmF32, ManyTiles) {
  check(70, 130, 400);
  check(100, 40, 900);
  check(14, 3600, 300);  // more than a block of packed columns
  check(300, 70, 600);   // more than a block of packed rows
  check(800, 20, 5);
}

TEST(GemmF32, EmptyOperands) {
  for (const base::Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    check(0, 3, 2);
    check(3, 0, 2);
    check(3, 4, 0);
  }
}

TEST(GemmF32, Epilogues) {
  const Tensor bias = random_tensor(DType::f32, {20 * 35}, 3);
  for (const base::Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    check(20, 35, 9, {.addend = bias.data<float>(), .addend_row_stride = 1, .activation = Activation::relu});
    check(20, 35, 9,
          {.addend = bias.data<float>(),
           .addend_column_stride = 1,
           .activation = Activation::clip,
           .low = -0.5f,
           .high = 0.25f});
    check(20, 35, 800,
          {.scale = 0.5f,
           .addend = bias.data<float>(),
           .addend_row_stride = 35,
           .addend_column_stride = 1,
           .addend_scale = -2});
    check(20, 35, 9, {.addend = bias.data<float>()});
  }
}

// Whole tiles add a bias alone to their sums, narrow last panels and other epilogues when they store them.
TEST(GemmF32, BiasOfColumns) {
  const Tensor bias = random_tensor(DType::f32, {197}, 3), addend = random_tensor(DType::f32, {40}, 6);
  for (const base::Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    for (const std::int64_t m : {1, 5, 12, 40}) {
      for (const std::int64_t n : {64, 112, 197}) {
        for (const std::int64_t k : {20, 700}) check(m, n, k, {.bias = bias.data<float>()});
      }
      check(m, 197, 20, {.scale = 0.5f, .bias = bias.data<float>()});
      check(m, 69, 700, {.bias = bias.data<float>(), .activation = Activation::clip, .low = -4, .high = 6});
      check(m, 192, 20, {.bias = bias.data<float>(), .addend = addend.data<float>(), .addend_row_stride = 1});
    }
  }
}

TEST(GemmF32, ActivationOfCompleteRows) {
  for (const base::Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    const RowActivation gelu = row_activation("Gelu", {});
    ASSERT_NE(gelu.function, nullptr);
    const std::int64_t m = 40, n = 301, k = 700;
    const Tensor a = random_tensor(DType::f32, {m, k}, 4), b = random_tensor(DType::f32, {k, n}, 5),
                 bias = random_tensor(DType::f32, {n}, 6);
    const GemmF32 gemm({m, n, k}, false, false);
    const auto run = [&](int threads, const Epilogue& epilogue) {
      Tensor c(DType::f32, {m, n});
      const GemmF32::Split split = gemm.split(threads);
      for (std::int64_t tile = 0; tile < split.tiles(); ++tile) {
        gemm.run(split, tile, GemmOperand::strided(a.data<float>(), k, 1), GemmOperand::strided(b.data<float>(), n, 1),
                 c.mutable_data<float>(), n, epilogue);
      }
      return c;
    };
    const Epilogue epilogues[] = {{},
                                  {.bias = bias.data<float>()},
                                  {.bias = bias.data<float>(), .activation = Activation::clip, .low = -4, .high = 6}};
    for (Epilogue epilogue : epilogues) {
      Tensor expected = run(1, epilogue);
      EXPECT_TRUE(close_to(expected, expected_product(a, b, epilogue),
                           Tolerance::epsilons(DType::f32, 4 + 0.4 * static_cast<double>(k))));
      gelu(expected.mutable_data<float>(), m * n);
      epilogue.after = &gelu;
      for (const int threads : {1, 2, 16}) EXPECT_TRUE(identical(run(threads, epilogue), expected)) << threads;
    }
  }
}

TEST(GemmF32, NanPassesThroughEpilogues) {
  for (const base::Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    const float a[] = {NAN, std::numeric_limits<float>::infinity()}, one = 1;
    for (const Activation activation : {Activation::none, Activation::relu, Activation::clip}) {
      float c[2] = {};
      GemmF32({2, 1, 1}, false, false)
          .run({}, 0, GemmOperand::strided(a, 1, 1), GemmOperand::strided(&one, 1, 1), c, 1,
               {.activation = activation, .low = 0, .high = 6});
      EXPECT_TRUE(std::isnan(c[0]));
      EXPECT_EQ(c[1], activation == Activation::clip ? 6 : std::numeric_limits<float>::infinity());
    }
  }
}

}  // namespace
}  // namespace tessera::backends::cpu::gemm_f32_test
