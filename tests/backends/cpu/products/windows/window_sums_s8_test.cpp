// Convolutions of bytes whose scale, zero point and bias are known at run time only, and whose weights have a zero
// point: against the reference, which sums ConvInteger in integers.
#include "backends/cpu/products/windows/window_sums_s8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "backends/cpu/machine/large_operands.h"
#include "backends/cpu/machine/simd.h"
#include "ops/core/builder.h"
#include "passes/pass.h"
#include "support/pass_context.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::backends::cpu::window_sums_s8_test {
namespace {

using Integers = std::vector<std::int64_t>;

struct Case {
  Shape x, w;
  ir::Attributes attributes = {};
  DType data = DType::u8, weights = DType::u8;
  int data_zero = 119;
  Integers weights_zeros = {121};  // one or one for each output; none: absent
  bool by_channel = false;
};

Tensor bytes(DType type, const Shape& shape, std::uint64_t seed) {
  return test::random_tensor(type, shape, seed, type == DType::u8 ? 0 : -128, type == DType::u8 ? 255 : 127);
}
Tensor bytes_of(DType type, const Integers& values) {
  Tensor made(type, values.size() == 1 ? Shape{} : Shape{static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i)
    static_cast<unsigned char*>(made.mutable_raw())[i] = static_cast<unsigned char>(values[i]);
  return made;
}

// Cast(ConvInteger(x, w, x_zero, w_zero)) x_scale w_scale + b
ir::Graph graph_of(const Case& c) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const auto input = [&](const char* name, DType type, const Shape& shape) {
    return graph.add_input(name, ir::ValueType::tensor(type, shape));
  };
  Shape by_channel(c.x.size(), 1);
  by_channel[1] = c.w[0];
  std::vector<ir::ValueId> operands{input("x", c.data, c.x), builder.constant(bytes(c.weights, c.w, 2)),
                                    input("zero", c.data, {})};
  if (!c.weights_zeros.empty()) operands.push_back(builder.constant(bytes_of(c.weights, c.weights_zeros)));
  const ir::ValueId sums = builder.add("ConvInteger", operands, c.attributes),
                    scale =
                        builder.add("Mul", {input("scale", DType::f32, {}),
                                            builder.constant(test::random_tensor(
                                                DType::f32, c.by_channel ? by_channel : Shape{}, 4, 0.005, 0.015))}),
                    product = builder.add("Mul", {builder.cast(sums, DType::f32), scale});
  graph.add_output(
      builder.add("Add", {product, builder.constant(test::random_tensor(DType::f32, by_channel, 3, -4, 4))}));
  return graph;
}

void check(const Case& c) {
  SCOPED_TRACE(to_string(c.x) + " * " + to_string(c.w));
  const auto graph = std::make_shared<const ir::Graph>(graph_of(c));
  const std::vector<std::string> lowered =
      test::ops_of(passes::lower_quantised(ir::Graph(*graph), test::cpu_pass_context()));
  ASSERT_EQ(std::ranges::count(lowered, "tessera::QuantisedConv"), 1);
  const Model model(graph);
  const NamedValues inputs{
      {"x", bytes(c.data, c.x, 1)}, {"zero", bytes_of(c.data, {c.data_zero})}, {"scale", Tensor::scalar(0.02f)}};
  SessionOptions options;
  options.device = "reference";
  options.without_passes = {"lower_quantised"};
  const Tensor expected = Session(model, options).run(inputs).begin()->second.tensor();
  const double epsilon = std::numeric_limits<float>::epsilon();
  for (const Extensions extensions : kAllExtensions) {
    for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
      const ScopedIsa scoped(isa, extensions);
      Tensor first;
      for (const int threads : {1, 2, 3}) {
        SessionOptions fast;
        fast.threads = threads;
        Tensor actual = Session(model, fast).run(inputs).begin()->second.tensor();
        if (first.has_value()) {
          EXPECT_TRUE(identical(actual, first));
          continue;
        }
        first = std::move(actual);
        EXPECT_TRUE(test::close_to(first, expected, {.relative = 4 * epsilon, .absolute = 4 * 4 * epsilon}))
            << "isa " << static_cast<int>(isa) << ", extensions " << static_cast<int>(extensions);
      }
    }
  }
}

ir::Attributes pads(std::int64_t n) {
  return {{"pads", Integers{n, n, n, n}}};
}

TEST(CpuConvOfDynamicBytes, WeightsOfAnyZeroPoint) {
  for (const int zero : {0, 1, 121, 127, 128, 178, 255})
    check({.x = {1, 5, 9, 7}, .w = {13, 5, 3, 3}, .attributes = pads(1), .weights_zeros = {zero}});
  for (const int zero : {-128, -1, 0, 5, 127})
    check({.x = {2, 24, 4, 6}, .w = {40, 24, 1, 1}, .weights = DType::i8, .weights_zeros = {zero}});
  check({.x = {1, 6, 8, 8},
         .w = {9, 6, 3, 3},
         .weights_zeros = {0, 255, 128, 7, 121, 130, 99, 3, 200},
         .by_channel = true});
  check({.x = {1, 6, 8, 8}, .w = {9, 6, 3, 3}, .weights_zeros = {0, 255, 128, 7, 121, 130, 99, 3, 200}});
  check({.x = {1, 6, 8, 8}, .w = {9, 6, 3, 3}, .weights_zeros = {100}, .by_channel = true});
  check({.x = {1, 6, 8, 8}, .w = {9, 6, 3, 3}, .weights_zeros = {}});
  check({.x = {1, 6, 8, 8}, .w = {9, 6, 3, 3}, .weights = DType::i8, .weights_zeros = {}});
}

TEST(CpuConvOfDynamicBytes, PaddingIsTheZeroPointOfTheRun) {
  for (const int zero : {0, 255}) {
    check({.x = {1, 3, 6, 5}, .w = {17, 3, 3, 3}, .attributes = pads(2), .data_zero = zero});
    check({.x = {1, 40, 6, 32}, .w = {16, 40, 3, 3}, .attributes = pads(1), .data_zero = zero});
    check({.x = {1, 130, 28, 28}, .w = {70, 130, 3, 3}, .attributes = pads(1), .data_zero = zero});
  }
}

TEST(CpuConvOfDynamicBytes, SignedData) {
  for (const int zero : {-128, 0, 127})
    check({.x = {1, 7, 9, 9},
           .w = {20, 7, 3, 3},
           .attributes = pads(1),
           .data = DType::i8,
           .weights = DType::i8,
           .data_zero = zero,
           .weights_zeros = {0}});
}

TEST(CpuConvOfDynamicBytes, GroupsAndAxes) {
  check({{1, 6, 11, 11}, {18, 3, 5, 3}, {{"group", std::int64_t{2}}, {"auto_pad", std::string("SAME_UPPER")}}});
  check({{1, 192, 6, 14},
         {34, 96, 3, 3},
         {{"group", std::int64_t{2}}, {"pads", Integers{1, 1, 1, 1}}, {"strides", Integers{1, 2}}}});
  check({{2, 3, 50}, {9, 3, 4}, {{"pads", Integers{2, 1}}}});
  check({{1, 2, 5, 6, 7}, {9, 2, 3, 2, 3}, {{"pads", Integers{1, 0, 2, 0, 1, 1}}}});
  check({{1, 33, 4, 4}, {16, 33, 1, 1}, {{"strides", Integers{2, 2}}}});
  check({{1, 2, 3, 2}, {9, 2, 7, 9}, {{"pads", Integers{5, 9, 4, 8}}}});
  check({{1, 5, 20, 41},
         {8, 5, 3, 5},
         {{"strides", Integers{1, 3}}, {"dilations", Integers{2, 3}}, {"pads", Integers{2, 6, 3, 5}}}});
}

TEST(CpuConvOfDynamicBytes, PartsOfTheDepth) {
  const ScopedLargeOperands small(0);
  check({.x = {1, 230, 20, 20}, .w = {33, 230, 3, 3}, .attributes = pads(1)});
  check({.x = {1, 480, 22, 22}, .w = {34, 240, 3, 3}, .attributes = {{"group", std::int64_t{2}}}});
}

TEST(CpuConvOfDynamicBytes, RandomShapes) {
  std::mt19937 random(7);
  const auto from = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 12; ++i) {
    const std::int64_t groups = from(0, 3) == 0 ? from(2, 3) : 1, inputs = from(1, 50), outputs = from(8, 40);
    Case c{.x = {from(1, 2), groups * inputs, from(9, 14), from(9, 30)},
           .w = {groups * outputs, inputs, from(1, 3), from(1, 4)},
           .attributes = {{"group", groups},
                          {"strides", Integers{from(1, 2), from(1, 3)}},
                          {"dilations", Integers{from(1, 3), from(1, 2)}},
                          {"pads", Integers{from(0, 3), from(0, 3), from(0, 3), from(0, 3)}}},
           .weights = from(0, 1) == 0 ? DType::u8 : DType::i8,
           .data_zero = static_cast<int>(from(0, 2) == 0 ? 255 * from(0, 1) : from(0, 255))};
    const std::int64_t least = c.weights == DType::u8 ? 0 : -128;
    c.weights_zeros = {from(least, least + 255)};
    check(c);
  }
}

// A bias that is known at run time, of a layer whose other operands are not.
TEST(CpuConvOfDynamicBytes, OnlyTheBiasVaries) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::u8, Shape{1, 6, 7, 12})),
                    b = graph.add_input("b", ir::ValueType::tensor(DType::f32, Shape{20}));
  graph.add_output(builder.add("tessera::QuantisedConv",
                               {x, builder.constant(bytes(DType::i8, {20, 12, 3, 3}, 2)), b, builder.scalar(0.02),
                                builder.scalar(7, DType::u8), builder.scalar(0.01)},
                               pads(1)));
  const Model model(std::make_shared<const ir::Graph>(std::move(graph)));
  const NamedValues inputs{{"x", bytes(DType::u8, {1, 6, 7, 12}, 1)},
                           {"b", test::random_tensor(DType::f32, {20}, 3, -4, 4)}};
  SessionOptions reference;
  reference.device = "reference";
  EXPECT_TRUE(test::close_to(Session(model).run(inputs).begin()->second.tensor(),
                             Session(model, reference).run(inputs).begin()->second.tensor(),
                             test::Tolerance::epsilons(DType::f32, 256)));
}

TEST(CpuConvOfDynamicBytes, QuantisedResultsNeedOperandsThatAreKnownBefore) {
  const Tensor x = bytes(DType::u8, {1, 6, 7, 12}, 1), w = bytes(DType::i8, {20, 12, 3, 3}, 2),
               half = Tensor::scalar(0.5f), one = Tensor::scalar(std::uint8_t{1}),
               shifted = Tensor::scalar(std::int8_t{-7});
  const Value none;
  const test::OpCall call{
      "tessera::QuantisedConv",
      {x, w, none, half, one, half, half, one, none, none, none, none, none, shifted},
  };
  const Tensor expected = test::run_op_tensor(call), actual = test::run_op_tensor(call, "cpu");
  EXPECT_TRUE(test::close_to(actual, expected, {.absolute = 1}));
}

}  // namespace
}  // namespace tessera::backends::cpu::window_sums_s8_test
