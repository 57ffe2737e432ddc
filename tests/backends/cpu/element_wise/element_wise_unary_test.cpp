#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "backends/cpu/machine/simd.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::element_wise_unary_test {
namespace {

struct UnaryCase {
  std::string op;
  double (*exact)(double);
  int ulps;  // largest error allowed over all floats in [low, high]
  float low, high;
};

constexpr float kMax = std::numeric_limits<float>::max();

const UnaryCase kTranscendental[] = {
    {"Acos", std::acos, 3, -1, 1},
    {"Asin", std::asin, 3, -1, 1},
    {"Atan", std::atan, 3, -kMax, kMax},
    {"Cos", std::cos, 1, -kMax, kMax},
    {"Exp", std::exp, 2, -110, 95},
    {"Log", std::log, 2, 0, kMax},
    {"Tanh", std::tanh, 2, -20, 20},
    {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 2, -110, 110},
    {"Erf", std::erf, 2, -6, 6},
    {"Sin", std::sin, 1, -kMax, kMax},
    {"Tan", std::tan, 1, -kMax, kMax},
    {"Softplus", [](double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }, 2, -90, 90},
};

// Distance in units in the last place of float, counting across zero.
std::int64_t ulps_between(float a, float b) {
  const auto position = [](float value) {
    const auto bits = std::bit_cast<std::int32_t>(value);
    return bits < 0 ? std::int64_t{std::numeric_limits<std::int32_t>::min()} - bits : std::int64_t{bits};
  };
  return std::abs(position(a) - position(b));
}

// About `count` floats in [low, high], evenly spaced in their representation: all exponents take part.
Tensor dense_sample(float low, float high, std::int64_t count) {
  std::vector<float> values;
  const std::int64_t top = std::bit_cast<std::int32_t>(std::max(std::fabs(low), std::fabs(high)));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto magnitude = std::bit_cast<float>(static_cast<std::int32_t>(top * i / count));
    for (const float value : {magnitude, -magnitude}) {
      if (value >= low && value <= high) values.push_back(value);
    }
  }
  return Tensor::from<float>({static_cast<std::int64_t>(values.size())}, values);
}

TEST(CpuMath, TranscendentalFunctionsAreWithinAFewUlps) {
  for (const UnaryCase& one : kTranscendental) {
    const Tensor x = dense_sample(one.low, one.high, 300'000);
    for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
      const backends::cpu::ScopedIsa scope(isa);
      const Tensor y = run_op_tensor({one.op, {x}}, "cpu");
      std::int64_t worst = 0;
      float where = 0;
      for (std::size_t i = 0; i < x.values<float>().size(); ++i) {
        const auto exact = static_cast<float>(one.exact(x.values<float>()[i]));
        const std::int64_t distance = ulps_between(y.values<float>()[i], exact);
        if (distance > worst) where = x.values<float>()[i];
        worst = std::max(worst, distance);
      }
      RecordProperty(one.op + std::to_string(static_cast<int>(isa)), std::to_string(worst));
      EXPECT_LE(worst, one.ulps) << one.op << " at " << where << ", instruction set " << static_cast<int>(isa);
    }
  }
}

struct FunctionCase {
  std::string op;
  ir::Attributes attributes = {};
  double low = -20, high = 20;
};

const FunctionCase kFunctions[] = {
    {"Abs"},
    {"Acos", {}, -1, 1},
    {"Acosh", {}, 1, 20},
    {"Asin", {}, -1, 1},
    {"Asinh"},
    {"Atan"},
    {"Atanh", {}, -1, 1},
    {"Ceil"},
    {"Celu", {{"alpha", 1.5f}}},
    {"Cos"},
    {"Cosh"},
    {"Elu", {{"alpha", 1.5f}}},
    {"Erf"},
    {"Exp"},
    {"Floor"},
    {"Gelu"},
    {"Gelu", {{"approximate", std::string("tanh")}}},
    {"HardSigmoid", {{"alpha", 0.3f}}},
    {"HardSwish"},
    {"LeakyRelu"},
    {"Log", {}, 0, 20},
    {"Mish"},
    {"Neg"},
    {"Reciprocal"},
    {"Relu"},
    {"Round"},
    {"Selu"},
    {"Sigmoid"},
    {"Sign"},
    {"Sin"},
    {"Sinh"},
    {"Softplus"},
    {"Softsign"},
    {"Sqrt", {}, 0, 20},
    {"Swish", {{"alpha", 1.7f}}},
    {"Tan", {}, -1, 1},
    {"Tanh"},
    {"ThresholdedRelu"},
};

TEST(CpuElementWiseUnary, MatchesReference) {
  for (const FunctionCase& one : kFunctions) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3}, Shape{5, 67}, Shape{40'003}}) {
      const Tensor x = random_tensor(DType::f32, shape, 5, one.low, one.high);
      expect_matches_reference({one.op, {x}, one.attributes}, Tolerance::epsilons(DType::f32, 4));
    }
  }
}

TEST(CpuElementWiseUnary, EdgeValues) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x =
      Tensor::from<float>({11}, {0.0f, -0.0f, infinity, -infinity, nan, 1e-40f, -1e-40f, kMax, -kMax, 0.5f, 2.5f});
  for (const FunctionCase& one : kFunctions) {
    expect_matches_reference({one.op, {x}, one.attributes}, Tolerance::epsilons(DType::f32, 4));
  }
}

TEST(CpuElementWiseUnary, ClipReadsItsBounds) {
  const Tensor x = random_tensor(DType::f32, {3, 67}, 5, -9, 9);
  const Value low = Tensor::scalar(-2.0f), high = Tensor::scalar(3.0f);
  expect_matches_reference({"Clip", {x}});
  expect_matches_reference({"Clip", {x, low}});
  expect_matches_reference({"Clip", {x, Value(), high}});
  expect_matches_reference({"Clip", {x, low, high}});
  expect_matches_reference({"Clip", {x, high, low}});
}

}  // namespace
}  // namespace tessera::test::element_wise_unary_test
