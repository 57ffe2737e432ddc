#include "passes/precision/unlowered_operators.h"

#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::unlowered_operators_test {
namespace {

TEST(RealAmongQuantised, SaysWhyAnOperatorIsNotLowered) {
  const ir::Graph graph = run_pipeline(test::parsed(R"(graph {
    input %x : u8[1, 4]
    input %w : f32[4, 4]
    constant %s = f32[] {0.5}
    constant %z = u8[] {3}
    %a = DequantizeLinear (%x, %s, %z)
    %b = Softmax "act" (%a)
    %c = MatMul "mix" (%a, %w)
    %y = QuantizeLinear (%b, %s, %z)
    output %y, %c
  })"),
                                       test::cpu_pass_context());
  EXPECT_EQ(unlowered_operators(graph),
            (std::vector<std::string>{"node 'act' (Softmax): Softmax has no integer form",
                                      "node 'mix' (MatMul): its weights are not constants"}));
}

TEST(RealAmongQuantised, HasNothingToSayOfLoweredLayers) {
  const ir::Graph graph = run_pipeline(test::parsed(R"(graph {
    input %x : u8[2, 4]
    constant %w = i8[4, 2] {1, 2, 3, 4, 5, 6, 7, 8}
    constant %s = f32[] {0.5}
    constant %z = u8[] {3}
    constant %wz = i8[] {0}
    %a = DequantizeLinear (%x, %s, %z)
    %b = DequantizeLinear (%w, %s, %wz)
    %c = MatMul (%a, %b)
    %y = QuantizeLinear (%c, %s, %z)
    output %y
  })"),
                                       test::cpu_pass_context());
  EXPECT_EQ(unlowered_operators(graph), std::vector<std::string>{});
}

}  // namespace
}  // namespace tessera::passes::unlowered_operators_test
