#include <gtest/gtest.h>

#include <limits>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::matmul_typed_test {
namespace {

const DType kTypes[] = {DType::f64, DType::i32, DType::i64, DType::u32, DType::u64};

// Integers of which products of a few wrap.
Tensor operand(DType type, const Shape& shape, std::uint64_t seed) {
  if (type == DType::f64) return random_tensor(type, shape, seed);
  const double high = bits_of(type) == 32 ? 1e5 : 1e12;
  return random_tensor(type, shape, seed, is_unsigned_integer(type) ? 0 : -high, high);
}

Tolerance tolerance_of(DType type, double length) {
  return type == DType::f64 ? Tolerance::epsilons(type, 8 + length) : Tolerance{};
}

TEST(CpuTypedMatMul, BatchesBroadcast) {
  const std::pair<Shape, Shape> shapes[] = {{{4, 6}, {6, 5}},
                                            {{6}, {6}},
                                            {{6}, {6, 5}},
                                            {{3, 6}, {6}},
                                            {{2, 3, 6}, {6, 5}},
                                            {{2, 3, 6}, {2, 6, 5}},
                                            {{2, 1, 3, 6}, {7, 6, 5}},
                                            {{3, 6}, {2, 6, 5}},
                                            {{1, 3, 6}, {2, 1, 6, 5}},
                                            {{0, 6}, {6, 5}},
                                            {{3, 0}, {0, 5}},
                                            {{70, 300}, {300, 131}},
                                            {{1, 400}, {400, 290}},
                                            {{33, 129}, {129, 1}}};
  for (const DType type : kTypes) {
    for (const auto& [a, b] : shapes)
      expect_matches_reference({"MatMul", {operand(type, a, 1), operand(type, b, 2)}}, tolerance_of(type, 100));
  }
}

TEST(CpuTypedMatMul, GemmTransposesScalesAndAdds) {
  for (const DType type : kTypes) {
    for (const std::int64_t transposed : {0, 1, 2, 3}) {
      const Tensor a = operand(type, transposed & 1 ? Shape{150, 37} : Shape{37, 150}, 1),
                   b = operand(type, transposed & 2 ? Shape{70, 150} : Shape{150, 70}, 2);
      ir::Attributes attributes = {{"transA", transposed & 1}, {"transB", transposed >> 1}};
      expect_matches_reference({"Gemm", {a, b}, attributes}, tolerance_of(type, 100));
      // Integers are added to sums of less than 2^53, beyond which the reference rounds.
      const Tensor x = random_tensor(type, a.shape(), 1, 0, 1000), y = random_tensor(type, b.shape(), 2, 0, 1000);
      for (const Shape& shape : {Shape{}, Shape{70}, Shape{37, 1}, Shape{1, 70}, Shape{37, 70}})
        expect_matches_reference({"Gemm", {x, y, random_tensor(type, shape, 3, 0, 1000)}, attributes},
                                 tolerance_of(type, 100));
      if (type != DType::f64) continue;
      attributes.insert({{"alpha", 0.5f}, {"beta", -2.0f}});
      expect_matches_reference({"Gemm", {a, b, operand(type, {70}, 3)}, attributes}, tolerance_of(type, 100));
    }
  }
}

TEST(CpuTypedMatMul, NanAndInfinity) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Tensor a = random_tensor(DType::f64, {5, 9}, 1), b = random_tensor(DType::f64, {9, 7}, 2);
  a.mutable_data<double>()[3] = nan;
  b.mutable_data<double>()[5] = infinity;
  expect_matches_reference({"MatMul", {a, b}}, Tolerance::epsilons(DType::f64, 8));
}

}  // namespace
}  // namespace tessera::test::matmul_typed_test
