// Kernels of two and three broadcasting operands: every operator over a list of shape pairs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/host/numeric.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "tessera/error.h"

namespace tessera::test::element_wise_binary_test {
namespace {

struct ShapePair {
  Shape x, y;
};
// Same shape, one element, rows, columns, channels, both ways, several axes, odd sizes, empty and scalar tensors.
const ShapePair kShapes[] = {
    {{67}, {67}},
    {{3, 33}, {}},
    {{}, {5, 7}},
    {{3, 33}, {1, 33}},
    {{3, 33}, {3, 1}},
    {{2, 5, 7, 9}, {5, 1, 1}},
    {{1, 5, 1, 1}, {2, 5, 3, 21}},
    {{4, 1, 6}, {1, 5, 1}},
    {{2, 3, 4, 5}, {2, 1, 4, 1}},
    {{0, 3}, {1, 3}},
    {{}, {}},
    {{1, 1}, {1}},
    {{12, 3000}, {3000}},
    {{70000}, {70000}},
    {{3, 40000}, {3, 1}},
    {{2900, 16}, {16}},  // short lines that repeat are taken together
    {{40}, {901, 40}},
    {{7, 1023}, {1, 1023}},
    {{2, 1, 3, 1, 2}, {1, 4, 1, 5, 1}},
};

const char* const kArithmetic[] = {"Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "PRelu"};
const char* const kComparisons[] = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"};
const char* const kLogic[] = {"And", "Or", "Xor"};

// Whether `y` broadcasts to `x` and `x` to nothing, as PRelu wants.
bool is_slope(const Shape& y, const Shape& x) {
  if (y.size() > x.size()) return false;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::int64_t size = y[y.size() - 1 - i];
    if (size != 1 && size != x[x.size() - 1 - i]) return false;
  }
  return true;
}

// Mod of floats wants its attribute.
ir::Attributes remainder(const std::string& op, DType type) {
  if (op != "Mod" || !is_float(type)) return {};
  return {{"fmod", ir::Attribute(std::int64_t{1})}};
}

TEST(CpuElementWiseBinary, ArithmeticMatchesReference) {
  for (const std::string op : kArithmetic) {
    for (const DType type : {DType::f32, DType::i64, DType::i32}) {
      for (const ShapePair& pair : kShapes) {
        if (op == "PRelu" && !is_slope(pair.y, pair.x)) continue;
        // Divisors are never 0.
        const bool divides = op == "Div" || op == "Mod";
        const Tensor x = random_tensor(type, pair.x, 1, -100, 100);
        const Tensor y = random_tensor(type, pair.y, 2, divides ? 1 : -100, 100);
        expect_matches_reference({op, {x, y}, remainder(op, type)}, Tolerance::epsilons(DType::f32, 1));
      }
    }
  }
}

TEST(CpuElementWiseBinary, ComparisonsMatchReference) {
  for (const std::string op : kComparisons) {
    for (const DType type : {DType::f32, DType::i64, DType::i32}) {
      for (const ShapePair& pair : kShapes) {
        expect_matches_reference({op, {random_tensor(type, pair.x, 1, -2, 2), random_tensor(type, pair.y, 2, -2, 2)}});
      }
    }
  }
  for (const std::string op : kLogic) {
    for (const ShapePair& pair : kShapes) {
      expect_matches_reference(
          {op, {random_tensor(DType::boolean, pair.x, 1, 0, 1), random_tensor(DType::boolean, pair.y, 2, 0, 1)}});
    }
  }
  expect_matches_reference({"Not", {random_tensor(DType::boolean, {77}, 1, 0, 1)}});
}

// Fewer shapes for the types that share plain loops.
const ShapePair kFewShapes[] = {
    {{133}, {133}},     {{3, 133}, {}},     {{}, {5, 17}},    {{3, 133}, {3, 1}}, {{2, 5, 7, 9}, {5, 1, 1}},
    {{2900, 16}, {16}}, {{70000}, {70000}}, {{0, 3}, {1, 3}},
};
const DType kUnsigned[] = {DType::u8, DType::u16, DType::u32, DType::u64};

// Values that make bytes wrap.
Tensor some_of(DType type, const Shape& shape, std::uint64_t seed, double lowest = -100) {
  const bool has_sign = !std::ranges::count(kUnsigned, type);
  return random_tensor(type, shape, seed, has_sign ? lowest : std::max(lowest, 0.0), has_sign ? 100 : 200);
}

TEST(CpuElementWiseBinary, EveryTypeMatchesReference) {
  for (const DType type : {DType::u8, DType::i8, DType::u16, DType::i16, DType::u32, DType::u64, DType::f64}) {
    for (const ShapePair& pair : kFewShapes) {
      for (const std::string op : {"Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"}) {
        const bool divides = op == "Div" || op == "Mod";
        expect_matches_reference(
            {op, {some_of(type, pair.x, 1), some_of(type, pair.y, 2, divides ? 1 : -100)}, remainder(op, type)});
      }
      for (const std::string op : kComparisons)
        expect_matches_reference({op, {some_of(type, pair.x, 1), some_of(type, pair.y, 2)}});
    }
  }
}

TEST(CpuElementWiseBinary, BitwiseMatchesReference) {
  for (const ShapePair& pair : kFewShapes) {
    for (const DType type : {DType::u8, DType::i8, DType::i16, DType::i32, DType::u64}) {
      for (const std::string op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
        expect_matches_reference({op, {some_of(type, pair.x, 1), some_of(type, pair.y, 2)}});
    }
    for (const DType type : kUnsigned) {
      // Shifts by the width and more, too.
      for (const std::string direction : {"LEFT", "RIGHT"}) {
        expect_matches_reference({"BitShift",
                                  {some_of(type, pair.x, 1), random_tensor(type, pair.y, 2, 0, 70)},
                                  {{"direction", ir::Attribute(direction)}}});
      }
    }
  }
}

TEST(CpuElementWiseBinary, EdgeValuesOfEveryType) {
  const Tensor bytes = Tensor::from<std::int8_t>({5, 1}, {-128, -1, 0, 1, 127});
  const Tensor divisors = Tensor::from<std::int8_t>({1, 4}, {-128, -1, 1, 127});
  for (const std::string op : {"Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Less", "GreaterOrEqual"})
    expect_matches_reference({op, {bytes, divisors}});
  expect_matches_reference({"Mod", {bytes, divisors}, {{"fmod", ir::Attribute(std::int64_t{1})}}});
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> edges = {0.0, -0.0, 1.5, -1.5, infinity, -infinity, nan, 1e-310, 1e308};
  const Tensor x = Tensor::from<double>({9, 1}, edges), y = Tensor::from<double>({1, 9}, edges);
  for (const std::string op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Greater", "LessOrEqual"})
    expect_matches_reference({op, {x, y}});
  expect_matches_reference({"Mod", {x, y}, {{"fmod", ir::Attribute(std::int64_t{1})}}});
}

TEST(CpuElementWiseBinary, EdgeValues) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> edges = {0.0f, -0.0f, 1.0f, -1.0f, infinity, -infinity, nan, 1e-40f, -1e-40f, 3e38f};
  const auto count = static_cast<std::int64_t>(edges.size());
  const Tensor x = Tensor::from<float>({count, 1}, edges), y = Tensor::from<float>({1, count}, edges);
  for (const std::string op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Greater", "LessOrEqual"})
    expect_matches_reference({op, {x, y}});
}

TEST(CpuElementWiseBinary, FoldsManyOperands) {
  const auto x = [](std::uint64_t seed) { return random_tensor(DType::f32, {3, 4001}, seed); };
  for (const std::string op : {"Sum", "Max", "Min"})
    expect_matches_reference({op, {x(1), x(2), x(3), x(4)}}, Tolerance::epsilons(DType::f32, 3));
}

TEST(CpuElementWiseBinary, WhereMatchesReference) {
  const Shape shapes[][3] = {{{67}, {67}, {67}},
                             {{3, 1}, {3, 33}, {}},
                             {{}, {4, 5}, {4, 5}},
                             {{2, 1, 5}, {3, 1}, {5}},
                             {{1, 300, 300}, {300, 300}, {}}};
  for (const DType type : {DType::f32, DType::u8, DType::i64, DType::f16}) {
    for (const auto& shape : shapes) {
      expect_matches_reference({"Where",
                                {random_tensor(DType::boolean, shape[0], 1, 0, 1),
                                 random_tensor(type, shape[1], 2, 0, 9), random_tensor(type, shape[2], 3, 0, 9)}});
    }
  }
}

TEST(CpuElementWiseBinary, DivisionByPowersOfTwoIsExact) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Tensor x =
      Tensor::from<float>({9}, {1.1f, -3.3f, 0.0f, -0.0f, 3e38f, 1.2e-38f, infinity, -infinity, std::nanf("")});
  for (const float divisor : {8.0f, -0.125f, 0x1p126f, 0x1p127f, 0x1p-126f, 0.0f, infinity, 3.0f})
    expect_matches_reference({"Div", {x, Tensor::scalar(divisor)}});
}

// Every quotient of two bytes, and quotients of larger integers at the edges of their types and around multiples.
TEST(CpuElementWiseBinary, IntegerDivisionIsExact) {
  for (const DType type :
       {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64}) {
    std::vector<std::int64_t> dividends, divisors;
    const int bits = bits_of(type);
    const std::int64_t low = is_unsigned_integer(type) ? 0 : bits == 8 ? -128 : -3, high = bits == 8 ? low + 255 : 70;
    for (std::int64_t i = low; i <= high; ++i) {
      dividends.push_back(i);
      if (i != 0) divisors.push_back(i);
    }
    for (int k = 7; k < bits - 1; ++k) {
      for (std::int64_t i = -2; i <= 2; ++i) {
        dividends.push_back((std::int64_t{1} << k) + i), divisors.push_back((std::int64_t{1} << k) + i);
        if (is_unsigned_integer(type)) continue;
        dividends.push_back(-(std::int64_t{1} << k) + i), divisors.push_back(-(std::int64_t{1} << k) - i);
      }
    }
    if (!is_unsigned_integer(type)) dividends.push_back(std::numeric_limits<std::int64_t>::min() >> (64 - bits));
    Tensor x(type, {static_cast<std::int64_t>(dividends.size()), 1}),
        y(type, {static_cast<std::int64_t>(divisors.size())});
    backends::host::write(dividends, x);
    backends::host::write(divisors, y);
    const Tensor column = run_op_tensor({"Reshape", {y, Tensor::from<std::int64_t>({2}, {-1, 1})}}, "reference"),
                 row = run_op_tensor({"Reshape", {x, Tensor::from<std::int64_t>({1}, {-1})}}, "reference");
    for (const std::int64_t truncated : {0, 1}) {
      expect_matches_reference({"Mod", {x, y}, {{"fmod", truncated}}});
      expect_matches_reference({"Mod", {row, column}, {{"fmod", truncated}}});
    }
    expect_matches_reference({"Div", {x, y}});
    expect_matches_reference({"Div", {row, column}});
  }
}

TEST(CpuElementWiseBinary, DivisionByZeroFailsAsInTheReference) {
  for (const DType type : {DType::i8, DType::i32, DType::i64}) {
    Tensor divisors = random_tensor(type, {100}, 1, 1, 9);
    static_cast<std::uint8_t*>(divisors.mutable_raw())[70 * (bits_of(type) / 8)] = 0;
    EXPECT_THROW(run_op({"Div", {divisors, divisors}}, "cpu"), Error);
  }
  const Tensor x = Tensor::from<std::int64_t>({2}, {1, std::numeric_limits<std::int64_t>::min()});
  for (const std::string device : {"reference", "cpu"}) {
    try {
      run_op({"Div", {x, Tensor::scalar<std::int64_t>(0)}}, device);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::failed);
      EXPECT_STREQ(error.what(), "integer division by zero (in node 'under_test' (Div))");
    }
  }
  expect_matches_reference({"Div", {x, Tensor::scalar<std::int64_t>(-1)}});
}

}  // namespace
}  // namespace tessera::test::element_wise_binary_test
