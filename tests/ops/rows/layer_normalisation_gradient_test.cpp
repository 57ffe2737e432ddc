#include "ops/rows/layer_normalisation_gradient.h"

#include <gtest/gtest.h>

#include "ops/core/builder.h"
#include "passes/training/differentiate.h"
#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::layer_normalisation_gradient_test {
namespace {

ir::ValueType f32(ir::Dims dims) {
  return ir::ValueType::tensor(DType::f32, std::move(dims));
}

TEST(LayerNormalizationGradient, RefusesWhatDoesNotFit) {
  const ir::ValueType x = f32({4, 3, 5});
  expect_error(ErrorKind::invalid_model, "'Scale' has shape [3], expected that of a row of [4, 3, 5]",
               [&] { infer_op("tessera::LayerNormalizationGradient", {x, x, f32({3})}, {}, 3); });
  expect_error(ErrorKind::invalid_model, "'dY' has shape [4, 3, 4], expected that of 'X', [4, 3, 5]",
               [&] { infer_op("tessera::RMSNormalizationGradient", {f32({4, 3, 4}), x, f32({5})}, {}, 2); });
}

// Whether the gradient of the normalisation is one operator for a scale of that shape.
bool is_one_operator(const std::string& op, ir::Dims scale) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", f32({ir::Dim::symbol("batch"), 3, 5})),
                    s = graph.add_input("s", f32(std::move(scale)));
  const ir::ValueId y = builder.add(op, {x, s}), xs[] = {x};
  passes::build_gradients(graph, y, xs);
  for (const ir::NodeId id : graph.order()) {
    if (graph.node(id).op == "tessera::" + op + "Gradient") return true;
  }
  return false;
}

TEST(LayerNormalizationGradient, IsForAScaleOfEachElementOfARow) {
  for (const std::string op : {"LayerNormalization", "RMSNormalization"}) {
    EXPECT_TRUE(is_one_operator(op, {5}));
    EXPECT_FALSE(is_one_operator(op, {3, 1}));  // broadcast along the rows
  }
}

}  // namespace
}  // namespace tessera::test::layer_normalisation_gradient_test
