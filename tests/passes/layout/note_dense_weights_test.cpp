// Which products are said to have dense weights.
#include <gtest/gtest.h>

#include <string>

#include "ops/core/builder.h"
#include "passes/pass.h"
#include "support/pass_context.h"

namespace tessera::passes::note_dense_weights_test {
namespace {

// The product of x [4, 64] with weights [64, 32], of which every `period`-th is zero (0: none).
ir::Graph product(int period, ir::Attributes attributes = {}) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  Tensor weights(DType::f32, {64, 32});
  for (std::int64_t i = 0; i < weights.elements(); ++i)
    weights.mutable_data<float>()[i] = period > 0 && i % period == 0 ? 0.0f : 1.0f;
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{4, 64}));
  graph.add_output(builder.add("tessera::Linear", {x, graph.add_constant(weights)}, std::move(attributes)));
  return graph;
}

bool says_dense(const ir::Graph& graph) {
  return graph.node(graph.order()[0]).attributes.contains("dense_weights");
}

TEST(NoteDenseWeights, SaysSoOfWeightsWithFewZeros) {
  EXPECT_TRUE(says_dense(note_dense_weights(product(0), test::cpu_pass_context())));
  EXPECT_TRUE(says_dense(note_dense_weights(product(10), test::cpu_pass_context())));
  EXPECT_FALSE(says_dense(note_dense_weights(product(2), test::cpu_pass_context())));
}

TEST(NoteDenseWeights, ForgetsWhatIsNoLongerTrue) {
  const ir::Attributes said{{"dense_weights", std::int64_t{1}}};
  EXPECT_FALSE(says_dense(note_dense_weights(product(2, said), test::cpu_pass_context())));
}

}  // namespace
}  // namespace tessera::passes::note_dense_weights_test
