// What passes decide by the machine that they are handed (cost/machine.h).
#include "cost/machine.h"

#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::machine_test {
namespace {

using Ops = std::vector<std::string>;

PassContext on(const cost::Machine& machine) {
  PassContext context = test::cpu_pass_context();
  context.machine = machine;
  return context;
}

cost::Machine machine_with(std::int64_t own_cache_bytes, base::Isa isa = base::Isa::avx512) {
  base::CpuInfo info;
  info.isa = isa;
  info.caches = {{1, 32 << 10, 1}, {2, own_cache_bytes, 1}, {3, 64 << 20, 1}};
  return cost::Machine(info);
}

// A convolution of one pixel, a depthwise one and one of one pixel, with 2 · 56 · 64 · 24 floats, 688 thousand bytes,
// after each of the first two.
std::string inverted_block() {
  const auto constant = [](const std::string& name, const std::string& shape, int count) {
    std::string elements = "0.5";
    for (int i = 1; i < count; ++i) elements += ", 0.25";
    return " constant %" + name + " = f32[" + shape + "] {" + elements + "}";
  };
  return "graph { input %x : f32[2, 56, 64, 4]" + constant("wide", "24, 4, 1, 1", 96) +
         constant("each", "24, 1, 3, 3", 216) + constant("narrow", "4, 24, 1, 1", 96) +
         " %a = tessera::ChannelsLastConv (%x, %wide)"
         " %b = tessera::ChannelsLastConv (%a, %each) {group = 24, pads = [1, 1, 1, 1]}"
         " %y = tessera::ChannelsLastConv (%b, %narrow) output %y }";
}

TEST(Machine, ConvolutionsAreChainedWhereACoresCacheHoldsTooLittle) {
  const ir::Graph graph = test::parsed(inverted_block());
  EXPECT_EQ(test::ops_of(chain_convolutions(graph, on(machine_with(2 << 20)))), Ops{"tessera::ConvChain"});
  const Ops apart{"tessera::ChannelsLastConv", "tessera::ChannelsLastConv", "tessera::ChannelsLastConv"};
  EXPECT_EQ(test::ops_of(chain_convolutions(graph, on(machine_with(4 << 20)))), apart);
  // Where computing takes so long that moving is a small part of it.
  cost::Machine slow = machine_with(2 << 20);
  slow.operations_per_second = slow.shared_bytes_per_second / 100;
  EXPECT_EQ(test::ops_of(chain_convolutions(graph, on(slow))), apart);
}

TEST(Machine, CropsMoveWhereTheyMakeTheGraphNoSlower) {
  // The crop is of a product that another Slice reads from the other side: each product of a part reads all weights.
  std::string weights;
  for (int i = 0; i < 64; ++i) weights += (i == 0 ? "1" : ", 1");
  const ir::Graph graph = test::parsed("graph { input %x : f32[4, 8] constant %w = f32[8, 8] {" + weights +
                                       "} constant %s = i64[1] {0} constant %e = i64[1] {2} constant %a = i64[1] {0}"
                                       " %p = MatMul (%x, %w) %o = Slice (%p, %s, %e, %a) output %o }");
  cost::Machine quick = machine_with(2 << 20), slow = quick;
  slow.operations_per_second = slow.bytes_per_second / 1e6;  // arithmetic alone counts
  const Ops moved{"Slice", "MatMul"};
  EXPECT_EQ(test::ops_of(move_crops(graph, on(slow))), moved);
  EXPECT_EQ(test::ops_of(move_crops(graph, on(quick))), moved);
}

TEST(Machine, RowsAreLookedUpAsTheyAreStoredWhereTheTableFitsNoCache) {
  const ir::Graph graph = test::parsed(
      "graph { input %k : i64[2] constant %t = f16[4, 2] {1, 2, 3, 4, 5, 6, 7, 8}"
      " %w = Cast (%t) {to = 1} %y = Gather (%w, %k) output %y }");
  cost::Machine none = machine_with(2 << 20);
  none.near_cache_bytes = 0;
  EXPECT_EQ(test::ops_of(look_up_stored_rows(graph, on(none))), (Ops{"Gather", "Cast", "Identity"}));
  EXPECT_EQ(test::ops_of(look_up_stored_rows(graph, on(machine_with(2 << 20)))), (Ops{"Cast", "Gather"}));
}

}  // namespace
}  // namespace tessera::passes::machine_test
