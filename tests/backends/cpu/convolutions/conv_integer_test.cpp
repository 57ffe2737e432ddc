#include <gtest/gtest.h>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::conv_integer_test {
namespace {

struct IntegerConvCase {
  Shape data, weights;
  ir::Attributes attributes = {};
};

using Integers = std::vector<std::int64_t>;

const IntegerConvCase kCases[] = {
    {{1, 3, 9, 11}, {5, 3, 3, 3}},
    {{2, 4, 9, 11}, {6, 4, 3, 3}, {{"pads", Integers{1, 1, 1, 1}}}},
    {{1, 4, 17, 13},
     {6, 2, 3, 5},
     {{"group", std::int64_t{2}}, {"strides", Integers{2, 3}}, {"pads", Integers{2, 1, 0, 4}}}},
    {{1, 6, 8, 8},
     {6, 1, 3, 3},
     {{"group", std::int64_t{6}}, {"dilations", Integers{2, 3}}, {"pads", Integers{3, 3, 3, 3}}}},
    {{2, 8, 7, 7}, {16, 8, 1, 1}},
    {{1, 3, 50}, {4, 3, 5}, {{"pads", Integers{2, 2}}}},
    {{1, 2, 5, 6, 7}, {3, 2, 2, 3, 2}, {{"pads", Integers{1, 0, 1, 0, 1, 0}}}},
    {{1, 1, 2, 3}, {2, 1, 2, 7}, {{"pads", Integers{0, 6, 0, 6}}}},
};

Tensor bytes(DType type, const Shape& shape, std::uint64_t seed) {
  return random_tensor(type, shape, seed, type == DType::u8 ? 0 : -128, type == DType::u8 ? 255 : 127);
}

TEST(CpuConvInteger, MatchesReferenceWithAnyZeroPoints) {
  for (const IntegerConvCase& one : kCases) {
    for (const DType x : {DType::u8, DType::i8}) {
      for (const DType w : {DType::u8, DType::i8}) {
        const Tensor data = bytes(x, one.data, 1), weights = bytes(w, one.weights, 2);
        const Tensor x_zero = bytes(x, {}, 3);
        expect_matches_reference({"ConvInteger", {data, weights}, one.attributes});
        expect_matches_reference({"ConvInteger", {data, weights, x_zero, bytes(w, {}, 4)}, one.attributes});
        expect_matches_reference(
            {"ConvInteger", {data, weights, x_zero, bytes(w, {one.weights[0]}, 5)}, one.attributes});
        expect_matches_reference({"ConvInteger", {data, weights, Value(), bytes(w, {1}, 6)}, one.attributes});
      }
    }
  }
}

// Columns are made for some lines at a time.
TEST(CpuConvInteger, ManyLines) {
  const ir::Attributes padded = {{"pads", Integers{1, 1, 1, 1}}};
  expect_matches_reference({"ConvInteger",
                            {bytes(DType::u8, {1, 20, 90, 101}, 1), bytes(DType::i8, {3, 20, 3, 3}, 2),
                             bytes(DType::u8, {}, 3), bytes(DType::i8, {3}, 4)},
                            padded});
}

}  // namespace
}  // namespace tessera::test::conv_integer_test
