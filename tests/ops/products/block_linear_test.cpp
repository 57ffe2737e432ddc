#include "ops/products/block_linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/numbers/half.h"
#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::block_linear_test {
namespace {

// A row of blocks of q8_0: a scale in float16 and 32 codes.
void append_q8_0(std::vector<std::uint8_t>& bytes, float scale, const std::vector<std::int8_t>& codes) {
  const f16_t d = base::to_f16(scale);
  bytes.push_back(static_cast<std::uint8_t>(d.bits & 0xFF));
  bytes.push_back(static_cast<std::uint8_t>(d.bits >> 8));
  for (const std::int8_t code : codes) bytes.push_back(static_cast<std::uint8_t>(code));
}

std::vector<std::int8_t> counting(int from, int step) {
  std::vector<std::int8_t> codes;
  for (int i = 0; i < 32; ++i) codes.push_back(static_cast<std::int8_t>(from + i * step));
  return codes;
}

ir::Attributes attributes(std::int64_t n, std::int64_t k, bool exact = false) {
  ir::Attributes made{{"format", std::string("q8_0")}, {"N", n}, {"K", k}};
  if (exact) made.insert({"exact", std::int64_t{1}});
  return made;
}

// Two rows of two blocks.
Tensor weights() {
  std::vector<std::uint8_t> bytes;
  append_q8_0(bytes, 0.5f, counting(-16, 1));
  append_q8_0(bytes, 0.25f, counting(60, -3));
  append_q8_0(bytes, 2.0f, counting(5, 0));
  append_q8_0(bytes, 0.0f, counting(1, 1));
  return Tensor::from<std::uint8_t>({2, 68}, bytes);
}

Tensor activations() {
  std::vector<float> x;
  for (int i = 0; i < 64; ++i) x.push_back(static_cast<float>((i * 37 % 41) - 20) / 7);
  return Tensor::from<float>({1, 64}, x);
}

double weight(int n, int k) {
  if (n == 0) return k < 32 ? 0.5 * (k - 16) : 0.25 * (60 - 3 * (k - 32));
  return k < 32 ? 10 : 0;
}

TEST(BlockLinear, MultipliesExactlyWhereAsked) {
  const Tensor y = run_op_tensor({"tessera::BlockLinear", {activations(), weights()}, attributes(2, 64, true)});
  std::vector<float> expected;
  for (int n = 0; n < 2; ++n) {
    double sum = 0;
    for (int k = 0; k < 64; ++k) sum += weight(n, k) * static_cast<double>(activations().values<float>()[k]);
    expected.push_back(static_cast<float>(sum));
  }
  EXPECT_TRUE(close_to(y, Tensor::from<float>({1, 2}, expected), Tolerance::epsilons(DType::f32, 64)));
}

TEST(BlockLinear, RoundsActivationsByBlock) {
  const Tensor x = activations();
  const Tensor y =
      run_op_tensor({"tessera::BlockLinear", {x, weights(), Tensor::from<float>({2}, {1, -1})}, attributes(2, 64)});
  std::vector<float> expected{1, -1};
  for (int n = 0; n < 2; ++n) {
    double sum = n == 0 ? 1 : -1;
    for (int block = 0; block < 2; ++block) {
      float largest = 0;
      for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(x.values<float>()[block * 32 + i]));
      const float d = largest / 127.0f;
      for (int i = 0; i < 32; ++i)
        sum += weight(n, block * 32 + i) *
               static_cast<double>(d * std::nearbyint(x.values<float>()[block * 32 + i] * (127.0f / largest)));
    }
    expected[static_cast<std::size_t>(n)] = static_cast<float>(sum);
  }
  EXPECT_TRUE(close_to(y, Tensor::from<float>({1, 2}, expected), Tolerance::epsilons(DType::f32, 64)));
}

TEST(BlockLinear, RoundsTiesToEvenAndTinyBlocksToZeros) {
  std::vector<float> x(64, 1e-37f);
  const float values[] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -3.5f}, rounded[] = {127, 0, 2, 2, 0, -4};
  std::fill_n(x.begin(), 32, 0.0f);
  std::ranges::copy(values, x.begin());
  const Tensor y =
      run_op_tensor({"tessera::BlockLinear", {Tensor::from<float>({1, 64}, x), weights()}, attributes(2, 64)});
  std::vector<float> expected;
  for (int n = 0; n < 2; ++n) {
    double sum = 0;
    for (int i = 0; i < 6; ++i) sum += weight(n, i) * static_cast<double>(rounded[i]);
    expected.push_back(static_cast<float>(sum));
  }
  EXPECT_TRUE(close_to(y, Tensor::from<float>({1, 2}, expected), Tolerance::epsilons(DType::f32, 64)));
}

TEST(BlockLinear, ZerosAndNumbersThatAreNotFinite) {
  std::vector<float> x(192, 0.0f);
  x[64] = INFINITY;
  x[128] = NAN;
  const Tensor y =
      run_op_tensor({"tessera::BlockLinear", {Tensor::from<float>({3, 64}, x), weights()}, attributes(2, 64)});
  EXPECT_EQ(y.values<float>()[0], 0);
  EXPECT_EQ(y.values<float>()[1], 0);
  for (int i = 2; i < 6; ++i) EXPECT_TRUE(std::isnan(y.values<float>()[i])) << i;
}

TEST(BlockLinear, RefusesWhatDoesNotFit) {
  const auto infer = [](ir::Attributes given, Shape w, Shape x) {
    infer_op("tessera::BlockLinear",
             {ir::ValueType::tensor(DType::f32, ir::to_dims(x)), ir::ValueType::tensor(DType::u8, ir::to_dims(w))},
             std::move(given));
  };
  expect_error_containing(ErrorKind::invalid_model, "expected 2 rows of 68 bytes (q8_0)",
                          [&] { infer(attributes(2, 64), {2, 67}, {1, 64}); });
  expect_error_containing(ErrorKind::invalid_model, "expected K = 64",
                          [&] { infer(attributes(2, 64), {2, 68}, {1, 63}); });
  expect_error_containing(ErrorKind::invalid_model, "whose blocks have 32 elements",
                          [&] { infer(attributes(2, 63), {2, 68}, {1, 63}); });
  ir::Attributes unknown = attributes(2, 64);
  unknown["format"] = std::string("q9_9");
  expect_error_containing(ErrorKind::invalid_model, "format is 'q9_9'", [&] { infer(unknown, {2, 68}, {1, 64}); });
}

TEST(BlockGather, GivesRowsInFloat32) {
  const Tensor y = run_op_tensor({"tessera::BlockGather",
                                  {weights(), Tensor::from<std::int64_t>({2}, {-1, 0})},
                                  {{"format", std::string("q8_0")}, {"N", std::int64_t{2}}, {"K", std::int64_t{64}}}});
  ASSERT_EQ(y.shape(), (Shape{2, 64}));
  for (int k = 0; k < 64; ++k) {
    EXPECT_EQ(y.values<float>()[k], static_cast<float>(weight(1, k)));
    EXPECT_EQ(y.values<float>()[64 + k], static_cast<float>(weight(0, k)));
  }
}

}  // namespace
}  // namespace tessera::test::block_linear_test
