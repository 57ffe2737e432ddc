#include "passes/pass_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/models.h"
#include "ops/core/infer.h"
#include "passes/pipeline.h"
#include "support/pass_context.h"

namespace tessera::passes::pass_memory_test {
namespace {

// A model of [batch, seq] with both sizes fixed.
ir::Graph with_sizes(ir::Graph graph, std::int64_t batch, std::int64_t seq) {
  for (const ir::ValueId input : graph.inputs()) {
    for (ir::Dim& dim : *graph.value(input).type.dims) {
      if (dim.is_symbol()) dim = dim.name() == "batch" ? batch : seq;
    }
  }
  ops::infer_graph(graph);
  return graph;
}

ir::Graph bert() {
  return models::build_model("bert_mini");
}

TEST(PassMemory, PatternsAreOfHowSizesCompare) {
  const ir::Graph model = bert();
  const PassMemory memory(model);
  const auto pattern = [&](std::int64_t batch, std::int64_t seq) {
    return memory.pattern_of(with_sizes(model, batch, seq));
  };
  EXPECT_EQ(pattern(3, 19), pattern(3, 20));
  EXPECT_NE(pattern(3, 19), pattern(1, 19));   // one: operands broadcast
  EXPECT_NE(pattern(3, 19), pattern(19, 19));  // two dimensions are equal
  EXPECT_NE(pattern(3, 19), pattern(19, 3));   // the other one is larger
  EXPECT_NE(memory.pattern_of(model), pattern(3, 19));
}

TEST(PassMemory, PatternsAreOfNodesAttributesAndConstants) {
  const auto pattern_of = [](std::string_view node, double number) {
    const ir::Graph graph = test::parsed(
        fmt::format("graph {{ input %x : f32[2, 3] constant %s = f32[] {{{}}} %y = {} output %y }}", number, node));
    return PassMemory(ir::Graph()).pattern_of(graph);
  };
  const std::uint64_t sum = pattern_of("Add (%x, %s)", 2);
  EXPECT_EQ(sum, pattern_of("Add (%x, %s)", 2));
  EXPECT_NE(sum, pattern_of("Add (%s, %x)", 2));
  EXPECT_NE(sum, pattern_of("Mul (%x, %s)", 2));
  EXPECT_NE(sum, pattern_of("Add (%x, %s)", 3));
}

TEST(PassMemory, PassesThatHaveNothingToDoAreLeftOut) {
  PassContext context = test::cpu_pass_context();
  const ir::Graph model = run_pipeline(bert(), context);
  PassMemory memory(model);
  for (std::int64_t seq = 17; seq < 27; ++seq) {
    const ir::Graph fixed = with_sizes(model, 3, seq);
    context.memory = nullptr;
    const ir::Graph expected = run_pipeline(fixed, context);
    context.memory = &memory;
    EXPECT_TRUE(ir::structurally_equal(run_pipeline(fixed, context), expected)) << seq;
  }
  // All passes run for the first length, and for each other one those alone that changed something or weigh sizes.
  const auto passes = static_cast<std::int64_t>(all_passes().size());
  EXPECT_EQ(memory.run_passes() + memory.left_out_passes(), 10 * passes);
  EXPECT_GT(memory.left_out_passes(), 9 * passes / 2);
}

}  // namespace
}  // namespace tessera::passes::pass_memory_test
