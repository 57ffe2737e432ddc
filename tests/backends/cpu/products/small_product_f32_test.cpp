#include "backends/cpu/products/small_product_f32.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/gemm_f32.h"
#include "support/pass_context.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::backends::cpu::small_product_f32_test {
namespace {

constexpr base::Isa kIsas[] = {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512};
constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

Tensor by_gemm(const SmallProduct& small, const Tensor& a, const Tensor& b) {
  Tensor c(DType::f32, {small.m, small.n});
  const GemmF32 gemm({small.m, small.n, small.k}, false, false);
  const auto operand = [](const Tensor& x, bool transposed, std::int64_t rows, std::int64_t columns) {
    return transposed ? GemmOperand::strided(x.data<float>(), 1, rows)
                      : GemmOperand::strided(x.data<float>(), columns, 1);
  };
  const GemmF32::Split split = gemm.split(2);
  for (std::int64_t tile = 0; tile < split.tiles(); ++tile) {
    gemm.run(split, tile, operand(a, small.transposed_left, small.m, small.k),
             operand(b, small.transposed_right, small.k, small.n), c.mutable_data<float>(), small.n, {});
  }
  return c;
}

// Nothing is written behind C.
Tensor by_small_product(const SmallProduct& small, const Tensor& a, const Tensor& b) {
  constexpr std::int64_t kBehind = 64;
  std::vector<float> c(static_cast<std::size_t>(small.m * small.n + kBehind), 12345.0f);
  small_product(small, a.data<float>(), b.data<float>(), c.data());
  for (std::int64_t i = 0; i < kBehind; ++i) EXPECT_EQ(c[static_cast<std::size_t>(small.m * small.n + i)], 12345.0f);
  c.resize(static_cast<std::size_t>(small.m * small.n));
  return Tensor::from<float>({small.m, small.n}, c);
}

void check(SmallProduct small, const Tensor& a, const Tensor& b) {
  SCOPED_TRACE(testing::Message() << small.m << " x " << small.n << " x " << small.k
                                  << ", transposed: " << small.transposed_left << small.transposed_right
                                  << ", symmetric: " << small.symmetric);
  ASSERT_TRUE(small_product_fits(small));
  for (const base::Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    EXPECT_TRUE(test::close_to(by_small_product(small, a, b), by_gemm(small, a, b)));
  }
}

Tensor random(std::int64_t count, std::uint64_t seed) {
  return test::random_tensor(DType::f32, {count}, seed);
}

TEST(SmallProduct, SumsAreThoseOfLargeOnes) {
  std::mt19937 generator(5);
  const auto any = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(generator);
  };
  for (int i = 0; i < 60; ++i) {
    for (const bool left : {false, true}) {
      for (const bool right : {false, true}) {
        const SmallProduct small{any(4, 50), any(1, 70), any(1, 100), left, right};
        check(small, random(small.m * small.k, 1), random(small.k * small.n, 2));
      }
    }
  }
  for (const bool right : {false, true}) check({4, 16, 512, false, right}, random(4 * 512, 1), random(512 * 16, 2));
}

TEST(SmallProduct, WithItself) {
  for (const std::int64_t m : {4, 5, 7, 8, 9, 13, 15, 16, 17, 24, 27, 31, 32, 33, 40, 47, 63, 65}) {
    for (const std::int64_t k : {1, 3, 8, 37, 64}) {
      const Tensor x = random(m * k, 3);
      check({m, m, k, false, true, true}, x, x);
    }
  }
}

TEST(SmallProduct, NotANumberAndInfinityStayInTheirRowsAndColumns) {
  for (const float value : {kNaN, kInfinity, -kInfinity}) {
    Tensor x = random(27 * 19, 3);
    x.mutable_data<float>()[26 * 19 + 18] = value;
    for (const bool symmetric : {false, true}) check({27, 27, 19, false, true, symmetric}, x, x);
    check({27, 19, 19, false, false}, x, random(19 * 19, 4));
    check({4, 27, 19, false, true}, random(4 * 19, 4), x);
  }
}

TEST(SmallProduct, DeepWideAndFlatOnesAreNotSmall) {
  EXPECT_TRUE(small_product_fits({27, 27, 64}));
  for (const SmallProduct& large : {SmallProduct{3, 27, 64}, SmallProduct{27, 27, 513}, SmallProduct{27, 129, 64},
                                    SmallProduct{27, 0, 64}, SmallProduct{27, 27, 0}})
    EXPECT_FALSE(small_product_fits(large));
}

// Batches of what the passes leave of x·xᵀ, and of two operands that hold the same numbers.
TEST(SmallProduct, OfOneTensorOrTwo) {
  const std::string text =
      "graph { input %x : f32[9, 27, 64] input %y : f32[9, 27, 64] "
      "%s = Transpose (%x) {perm = [0, 2, 1]} %p = MatMul (%x, %s) %t = Transpose (%y) {perm = [0, 2, 1]} %q = MatMul "
      "(%x, %t) output %p, %q }";
  const Model model(std::make_shared<const ir::Graph>(test::parsed(text)));
  const Tensor x = test::random_tensor(DType::f32, {9, 27, 64}, 3);
  const NamedValues inputs{{"x", x}, {"y", Tensor::from<float>({9, 27, 64}, x.values<float>())}};
  SessionOptions reference;
  reference.device = "reference";
  const Tensor expected = Session(model, reference).run(inputs).at("q").tensor();
  for (const int threads : {1, 2}) {
    SessionOptions options;
    options.threads = threads;
    const NamedValues results = Session(model, options).run(inputs);
    EXPECT_TRUE(test::close_to(results.at("q").tensor(), expected, test::Tolerance::epsilons(DType::f32, 72)));
    EXPECT_TRUE(test::close_to(results.at("p").tensor(), results.at("q").tensor()));
  }
}

}  // namespace
}  // namespace tessera::backends::cpu::small_product_f32_test
