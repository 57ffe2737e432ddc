#include "train/net/separate_weights.h"

#include <gtest/gtest.h>

#include "ops/core/builder.h"
#include "train/net/training_graph.h"

namespace tessera::train::separate_weights_test {
namespace {

// Two LayerNormalizations whose weights the exporter wrote once, and a product that shares a weight with another one.
ir::Graph exported() {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 2}));
  const ir::ValueId ones = builder.constant(Tensor::from<float>({2}, {1, 1}), "norm1.weight");
  const ir::ValueId zeros = builder.constant(Tensor::from<float>({2}, {0, 0}), "norm.bias");
  const ir::ValueId shared = builder.constant(Tensor::from<float>({2, 2}, {1, 2, 3, 4}), "product.weight");
  const auto passed_on = [&](ir::ValueId value, const char* name) {
    const ir::ValueId copy = builder.add("Identity", {value});
    graph.value(copy).name = name;
    return copy;
  };
  x = builder.add("MatMul", {builder.add("LayerNormalization", {x, ones, zeros}), shared});
  x = builder.add("LayerNormalization", {x, passed_on(ones, "norm2.weight"), zeros});
  x = builder.add("MatMul", {x, passed_on(shared, "tied.weight")});
  const ir::ValueId first = builder.constant(Tensor::from<float>({2, 2}, {1, 2, 3, 4}), "layers.9.weight");
  x = builder.add("MatMul", {builder.add("MatMul", {x, first}), passed_on(first, "layers.10.weight")});
  graph.value(x).name = "y_hat";
  graph.add_output(x);
  return graph;
}

TEST(SeparateWeights, GivesEachLayerItsOwnUniformOrCopiedWeights) {
  const ir::Graph graph = separate_weights(exported());
  const auto is_constant = [&](const char* name) {
    const ir::ValueId id = graph.find_value(name);
    return id.valid() && graph.is_constant(id);
  };
  EXPECT_TRUE(is_constant("norm1.weight"));
  EXPECT_TRUE(is_constant("norm2.weight"));
  EXPECT_TRUE(is_constant("product.weight"));
  EXPECT_FALSE(is_constant("tied.weight"));
  EXPECT_TRUE(is_constant("layers.10.weight"));
  TrainingGraphOptions options;
  options.target_dims = {ir::Dim::symbol("batch")};
  const TrainingGraph training = make_training_graph(exported(), options);
  // Two weights and two biases of normalisations, one shared product, and two that are copies.
  EXPECT_EQ(training.parameters.size(), 7u);
  EXPECT_TRUE(ir::structurally_equal(graph, separate_weights(graph)));
}

}  // namespace
}  // namespace tessera::train::separate_weights_test
