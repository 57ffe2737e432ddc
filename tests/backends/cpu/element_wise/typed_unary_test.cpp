#include <gtest/gtest.h>

#include <limits>

#include "backends/host/numeric.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::typed_unary_test {
namespace {

const DType kIntegers[] = {DType::i8, DType::i16, DType::i32, DType::i64,
                           DType::u8, DType::u16, DType::u32, DType::u64};
const Shape kShapes[] = {{}, {0}, {3}, {5, 67}, {40'003}};

Tensor numbers(DType type, const Shape& shape) {
  return random_tensor(type, shape, 7, is_unsigned_integer(type) || type == DType::boolean ? 0 : -100, 100);
}

// The lowest and the highest integer, and what is next to zero.
Tensor edges(DType type) {
  Tensor x(type, {5});
  const int bits = bits_of(type);
  if (is_unsigned_integer(type)) {
    backends::host::write(std::vector<std::uint64_t>{0, 1, 2, ~std::uint64_t{0}, std::uint64_t{1} << (bits - 1)}, x);
  } else {
    const std::int64_t lowest = std::numeric_limits<std::int64_t>::min() >> (64 - bits);
    backends::host::write(std::vector<std::int64_t>{0, 1, -1, lowest, -(lowest + 1)}, x);
  }
  return x;
}

Tensor edge_doubles() {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  return Tensor::from<double>({10}, {0, -0.0, 0.5, -0.5, 2.5, infinity, -infinity, nan, 1e300, -1e300});
}

TEST(CpuTypedUnary, IntegersMatchReference) {
  for (const DType type : kIntegers) {
    for (const std::string op : {"Abs", "BitwiseNot", "Clip", "Neg", "Relu", "Sign"}) {
      if (is_unsigned_integer(type) && (op == "Neg" || op == "Relu")) continue;
      for (const Shape& shape : kShapes) expect_matches_reference({op, {numbers(type, shape)}});
      expect_matches_reference({op, {edges(type)}});
    }
  }
}

TEST(CpuTypedUnary, ClipReadsItsBounds) {
  for (const DType type : {DType::u8, DType::i32, DType::i64, DType::f64}) {
    const Tensor x = numbers(type, {3, 67});
    Tensor low(type, {}), high(type, {});
    backends::host::write(std::vector<double>{20}, low);
    backends::host::write(std::vector<double>{60}, high);
    expect_matches_reference({"Clip", {x, low}});
    expect_matches_reference({"Clip", {x, Value(), high}});
    expect_matches_reference({"Clip", {x, low, high}});
    expect_matches_reference({"Clip", {x, high, low}});
  }
}

TEST(CpuTypedUnary, BoolsMatchReference) {
  for (const Shape& shape : kShapes) expect_matches_reference({"Not", {random_tensor(DType::boolean, shape, 7, 0, 2)}});
}

TEST(CpuTypedUnary, TestsOfFloatsMatchReference) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Tensor x = random_tensor(DType::f32, {300}, 3, -9, 9);
  for (const std::int64_t i : {0, 70, 299}) x.mutable_data<float>()[i] = i == 70 ? -infinity : i == 0 ? nan : infinity;
  for (const Tensor& tested : {x, edge_doubles()}) {
    expect_matches_reference({"IsNaN", {tested}});
    for (const std::int64_t negative : {0, 1})
      expect_matches_reference({"IsInf", {tested}, {{"detect_negative", negative}}});
    expect_matches_reference({"IsInf", {tested}, {{"detect_positive", std::int64_t{0}}}});
  }
}

TEST(CpuTypedUnary, DoublesMatchReference) {
  const char* const kOps[] = {
      "Abs", "Acos", "Acosh",    "Asin",       "Asinh", "Atan",  "Atanh",       "Ceil",      "Clip",
      "Cos", "Cosh", "Elu",      "Erf",        "Exp",   "Floor", "HardSigmoid", "HardSwish", "LeakyRelu",
      "Log", "Mish", "Neg",      "Reciprocal", "Relu",  "Round", "Selu",        "Sigmoid",   "Sign",
      "Sin", "Sinh", "Softplus", "Softsign",   "Sqrt",  "Swish", "Tan",         "Tanh",      "ThresholdedRelu"};
  for (const std::string op : kOps) {
    for (const Shape& shape : kShapes)
      expect_matches_reference({op, {random_tensor(DType::f64, shape, 5, -3, 3)}}, Tolerance::epsilons(DType::f64, 4));
    expect_matches_reference({op, {edge_doubles()}}, Tolerance::epsilons(DType::f64, 4));
  }
}

}  // namespace
}  // namespace tessera::test::typed_unary_test
