// Arithmetic that has no result, or none that fits: every integer width, constants and inputs, on both devices.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/hostile_call.h"

namespace tessera::test::hostile_arithmetic_test {
namespace {

template <typename T>
Tensor list(std::initializer_list<T> values) {
  return Tensor::from<T>({static_cast<std::int64_t>(values.size())}, values);
}

template <typename T>
class HostileInteger : public testing::Test {};
using Integers = testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                                std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(HostileInteger, Integers);

TYPED_TEST(HostileInteger, DivisionByZeroIsAnError) {
  using T = TypeParam;
  expect_call_refused({"Div", {list<T>({6, 7}), list<T>({2, 0})}}, "integer division by zero");
  expect_call_refused({"Mod", {list<T>({6, 7}), list<T>({2, 0})}}, "integer division by zero");
  expect_call_refused({"Mod", {list<T>({6, 7}), list<T>({2, 0})}, {{"fmod", std::int64_t{1}}}},
                      "integer division by zero");
}

TYPED_TEST(HostileInteger, TheLowestNumberWraps) {
  using T = TypeParam;
  if constexpr (std::is_signed_v<T>) {
    constexpr T low = std::numeric_limits<T>::min();
    const Tensor x = list<T>({low, 6}), minus = list<T>({-1, -1});
    expect_call_gives({"Div", {x, minus}}, list<T>({low, -6}));
    expect_call_gives({"Mod", {x, minus}}, list<T>({0, 0}));
    expect_call_gives({"Mod", {x, minus}, {{"fmod", std::int64_t{1}}}}, list<T>({0, 0}));
    expect_call_gives({"Neg", {x}}, list<T>({low, -6}));
    expect_call_gives({"Abs", {x}}, list<T>({low, 6}));
    expect_call_gives({"Mul", {x, minus}}, list<T>({low, -6}));
    expect_call_gives({"Sub", {x, list<T>({1, 1})}}, list<T>({std::numeric_limits<T>::max(), 5}));
  } else {
    expect_call_gives({"Sub", {list<T>({0}), list<T>({1})}}, list<T>({std::numeric_limits<T>::max()}));
  }
  expect_call_gives({"Add", {list<T>({std::numeric_limits<T>::max()}), list<T>({1})}},
                    list<T>({std::numeric_limits<T>::min()}));
}

TYPED_TEST(HostileInteger, SumsAndProductsWrap) {
  using T = TypeParam;
  constexpr T high = std::numeric_limits<T>::max();
  const Tensor x = list<T>({high, high, 2});
  const Tensor axes = list<std::int64_t>({0});
  const T sum = static_cast<T>(static_cast<std::uint64_t>(high) * 2 + 2),
          product = static_cast<T>(static_cast<std::uint64_t>(high) * static_cast<std::uint64_t>(high) * 2);
  // ONNX has them for integers of 32 and 64 bits, CumSum likewise.
  if constexpr (sizeof(T) >= 4) {
    expect_call_gives({"ReduceSum", {x, axes}}, list<T>({sum}));
    expect_call_gives({"ReduceProd", {x, axes}}, list<T>({product}));
    expect_call_gives({"CumSum", {x, Tensor::scalar<std::int64_t>(0)}},
                      list<T>({high, static_cast<T>(static_cast<std::uint64_t>(high) * 2), sum}));
  }
}

TYPED_TEST(HostileInteger, ShiftsByTheWidthAndMoreGiveNothing) {
  using T = TypeParam;
  if constexpr (std::is_unsigned_v<T>) {
    constexpr T width = sizeof(T) * 8, high = std::numeric_limits<T>::max();
    const Tensor x = list<T>({high, high, high, high}), by = list<T>({0, width - 1, width, high});
    expect_call_gives({"BitShift", {x, by}, {{"direction", std::string("LEFT")}}},
                      list<T>({high, static_cast<T>(T{1} << (width - 1)), 0, 0}));
    expect_call_gives({"BitShift", {x, by}, {{"direction", std::string("RIGHT")}}}, list<T>({high, 1, 0, 0}));
  }
}

TEST(HostileArithmetic, NegativePowersOfIntegersAreFractions) {
  const Tensor x = list<std::int64_t>({2, 1, -1, -1, 3}), y = list<std::int64_t>({-1, -5, -3, -4, 41});
  expect_call_gives({"Pow", {x, y}},
                    list<std::int64_t>({0, 1, -1, 1, static_cast<std::int64_t>(18026252303461234787U)}));
  expect_call_refused({"Pow", {list<std::int64_t>({0}), list<std::int64_t>({-1})}}, "0 to the power of -1");
  expect_call_gives({"Pow", {list<std::int32_t>({2, 2}), list<std::int64_t>({31, INT64_MAX})}},
                    list<std::int32_t>({INT32_MIN, 0}));
}

TEST(HostileArithmetic, FloatsBeyondAnIntegerBecomeItsEnds) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = list<float>({inf, -inf, nan, 3e38f, -3e38f, 1.9f, -1.9f});
  const auto cast_to = [&](DType type) { return OpCall{"Cast", {x}, {{"to", static_cast<std::int64_t>(type)}}}; };
  expect_call_gives(cast_to(DType::i64), list<std::int64_t>({INT64_MAX, INT64_MIN, 0, INT64_MAX, INT64_MIN, 1, -1}));
  for (const DType type : {DType::i8, DType::i16, DType::i32, DType::u8, DType::u16, DType::u32, DType::u64,
                           DType::boolean, DType::f16, DType::i4, DType::u4}) {
    expect_call_harmless(cast_to(type));
  }
  const Tensor doubles = list<double>({1e300, -1e300, std::nan("")});
  expect_call_gives({"Cast", {doubles}, {{"to", std::int64_t{7}}}}, list<std::int64_t>({INT64_MAX, INT64_MIN, 0}));
}

TEST(HostileArithmetic, ProductsOfIntegersWrap) {
  const Tensor a = Tensor::from<std::int32_t>({1, 2}, {INT32_MAX, INT32_MAX}),
               b = Tensor::from<std::int32_t>({2, 1}, {INT32_MAX, 1});
  // (2^31 - 1)^2 + 2^31 - 1 = 2^62 - 2^31
  expect_call_gives({"MatMul", {a, b}}, Tensor::from<std::int32_t>({1, 1}, {INT32_MIN}));
  expect_call_gives({"Einsum", {a, b}, {{"equation", std::string("ij,jk->ik")}}},
                    Tensor::from<std::int32_t>({1, 1}, {INT32_MIN}));
  expect_call_harmless({"Gemm", {a, b, Tensor::scalar<std::int32_t>(INT32_MIN)}, {{"alpha", 1e30f}, {"beta", -1e30f}}});
  const Tensor bytes = Tensor::from<std::int8_t>({1, 2}, {-128, -128}), zero = Tensor::scalar<std::int8_t>(127);
  expect_call_gives({"MatMulInteger", {bytes, Tensor::from<std::int8_t>({2, 1}, {-128, -128}), zero, zero}},
                    Tensor::from<std::int32_t>({1, 1}, {2 * 255 * 255}));
}

}  // namespace
}  // namespace tessera::test::hostile_arithmetic_test
