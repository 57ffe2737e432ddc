#include "passes/simplify/unpack_sequences.h"

#include <gtest/gtest.h>

#include "ops/core/builder.h"
#include "passes/training/differentiate.h"
#include "support/evaluate_graph.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"

namespace tessera::test::unpack_sequences_test {
namespace {

using ir::ValueId;

// x [4, 6], split along axis 1; two of the pieces added and joined with the third one.
ir::Graph split(ValueId& x, const char* position_of_last) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{4, 6}));
  const ValueId pieces = builder.add("SplitToSequence", {x, builder.integers({2, 2, 2})}, {{"axis", std::int64_t{1}}});
  const auto at = [&](std::int64_t i) {
    return builder.add("SequenceAt", {pieces, builder.constant(Tensor::scalar(i))});
  };
  const ValueId last =
      position_of_last == nullptr
          ? at(-1)
          : builder.add("SequenceAt",
                        {pieces, graph.add_input(position_of_last, ir::ValueType::tensor(DType::i64, ir::Dims{}))});
  const ValueId sum = builder.add("Add", {at(0), at(1)});
  const ValueId both = builder.add("SequenceConstruct", {sum, last});
  const ValueId all = builder.add("SequenceInsert", {both, builder.add("Mul", {sum, last})});
  graph.add_output(builder.add("ConcatFromSequence", {all}, {{"axis", std::int64_t{0}}}));
  graph.add_output(builder.add("SequenceLength", {all}));
  graph.value(graph.outputs()[0]).name = "y";
  graph.value(graph.outputs()[1]).name = "n";
  return graph;
}

TEST(UnpackSequences, GivesTheSameWithoutSequences) {
  ValueId x;
  const ir::Graph before = split(x, nullptr);
  const ir::Graph after = passes::unpack_sequences(before);
  for (const ir::NodeId id : after.order()) EXPECT_EQ(after.node(id).op.find("Sequence"), std::string::npos);
  const Tensor given = random_tensor(DType::f32, {4, 6}, 1, -1, 1);
  const auto value = [&](const ir::Graph& graph, std::size_t i) {
    return evaluate_graph(graph, {{"x", given}})[static_cast<std::size_t>(graph.outputs()[i].index)].tensor();
  };
  EXPECT_TRUE(close_to(value(after, 0), value(before, 0), {.relative = 0, .absolute = 0}));
  EXPECT_EQ(*value(after, 1).data<std::int64_t>(), 3);
}

// Gradients flow through what was a sequence; through one that stays they would be zeros, which is refused.
TEST(UnpackSequences, LetsGradientsThrough) {
  ValueId x;
  ir::Graph graph = passes::unpack_sequences(split(x, nullptr));
  const ValueId input = graph.inputs()[0];
  const ValueId gradient = passes::build_gradients(graph, graph.outputs()[0], std::span(&input, 1))[0];
  const Tensor given = random_tensor(DType::f32, {4, 6}, 1, 1, 2);
  const Tensor found = evaluate_graph(graph, {{"x", given}})[static_cast<std::size_t>(gradient.index)].tensor();
  for (std::int64_t i = 0; i < 24; ++i) EXPECT_GE(found.data<float>()[i], 1);
  ir::Graph asked = split(x, "i");
  const ValueId other = asked.inputs()[0];
  expect_error_containing(ErrorKind::unsupported, "no gradient is stated for S",
                          [&] { passes::build_gradients(asked, asked.outputs()[0], std::span(&other, 1)); });
}

}  // namespace
}  // namespace tessera::test::unpack_sequences_test
