#include "train/net/new_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/models.h"
#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "tessera/session.h"
#include "train/net/initial_weights.h"

namespace tessera::train::new_head_test {
namespace {

using ir::ValueId;
using test::expect_error_containing;

struct Net {
  ir::Graph graph;
  ops::GraphBuilder builder{graph};
  ValueId x;

  explicit Net(const ir::Dims& dims) { x = graph.add_input("x", ir::ValueType::tensor(DType::f32, dims)); }
  ValueId weight(const char* name, const Shape& shape) {
    return graph.add_constant(test::random_tensor(DType::f32, shape, 1, -0.5, 0.5), name);
  }
  ir::Graph finish(ValueId output) {
    graph.value(output).name = "logits";
    graph.add_output(output);
    return std::move(graph);
  }
};

const Tensor& constant(const ir::Graph& graph, const std::string& name) {
  return *graph.constant(graph.find_value(name));
}

void expect_drawn(const Tensor& tensor, std::int64_t inputs) {
  const float bound = 1 / std::sqrt(static_cast<float>(inputs));
  const auto values = tensor.values<float>();
  float most = 0, sum = 0;
  for (const float value : values) most = std::max(most, std::abs(value)), sum += value;
  EXPECT_LE(most, bound);
  if (values.size() < 100) return;
  EXPECT_GT(most, 0.9f * bound);
  EXPECT_LT(std::abs(sum) / static_cast<float>(values.size()), 0.2f * bound);
}

Shape output_of(const ir::Graph& graph, const Shape& input) {
  Session session{Model(std::make_shared<const ir::Graph>(graph))};
  return session.run({{"x", test::random_tensor(DType::f32, input, 3, -1, 1)}}).at("logits").tensor().shape();
}

// Linear as PyTorch's exporters write it: Gemm with the weight transposed, by a flag or by a node.
TEST(NewHead, ReplacesTheLastGemm) {
  for (const bool by_node : {false, true}) {
    Net net({4, 6});
    const ValueId hidden = net.builder.add("Relu", {net.builder.add("Gemm", {net.x, net.weight("fc1", {6, 32})})});
    const ValueId weight = net.weight("fc2.weight", {10, 32});
    const ValueId bias = net.weight("fc2.bias", {10});
    const ValueId logits =
        by_node
            ? net.builder.add(
                  "Gemm",
                  {hidden, net.builder.add("Transpose", {weight}, {{"perm", std::vector<std::int64_t>{1, 0}}}), bias})
            : net.builder.add("Gemm", {hidden, weight, bias}, {{"transB", std::int64_t{1}}});
    const ir::Graph before = net.finish(net.builder.add("Softmax", {logits}));
    const NewHead made = replace_head(before, "", 7, 1);
    EXPECT_EQ(constant(made.graph, "fc2.weight").shape(), (Shape{7, 32}));
    EXPECT_EQ(constant(made.graph, "fc2.bias").shape(), (Shape{7}));
    expect_drawn(constant(made.graph, "fc2.weight"), 32);
    expect_drawn(constant(made.graph, "fc2.bias"), 32);
    EXPECT_EQ(constant(made.graph, "fc1").raw(), constant(before, "fc1").raw());
    EXPECT_EQ(output_of(made.graph, {4, 6}), (Shape{4, 7}));
    EXPECT_NE(made.description.find("(weight fc2.weight) has 7 outputs in place of 10"), std::string::npos);
    // The same seed draws the same numbers, another one others.
    EXPECT_EQ(constant(replace_head(before, "logits", 7, 1).graph, "fc2.weight").data<float>()[0],
              constant(made.graph, "fc2.weight").data<float>()[0]);
    EXPECT_NE(constant(replace_head(before, "logits", 7, 2).graph, "fc2.weight").data<float>()[0],
              constant(made.graph, "fc2.weight").data<float>()[0]);
  }
}

TEST(NewHead, ReplacesAProductWithItsBias) {
  Net net({2, 5, 8});
  const ValueId product = net.builder.add("MatMul", {net.x, net.weight("w", {8, 10})});
  const NewHead made = replace_head(net.finish(net.builder.add("Add", {net.weight("b", {10}), product})), "", 3, 1);
  EXPECT_EQ(constant(made.graph, "w").shape(), (Shape{8, 3}));
  EXPECT_EQ(constant(made.graph, "b").shape(), (Shape{3}));
  EXPECT_EQ(output_of(made.graph, {2, 5, 8}), (Shape{2, 5, 3}));
}

// As SqueezeNet has it: what is behind the convolution follows, a constant shape too.
TEST(NewHead, ReplacesAConvolution) {
  Net net({2, 8, 6, 6});
  const ValueId maps =
      net.builder.add("Conv", {net.x, net.weight("conv.weight", {1000, 8, 1, 1}), net.weight("conv.bias", {1000})});
  const ValueId pooled = net.builder.add("GlobalAveragePool", {net.builder.add("Relu", {maps})});
  const ValueId shape = net.graph.add_constant(Tensor::from<std::int64_t>({2}, {-1, 1000}), "shape");
  const NewHead made = replace_head(net.finish(net.builder.add("Reshape", {pooled, shape})), "", 5, 1);
  EXPECT_EQ(constant(made.graph, "conv.weight").shape(), (Shape{5, 8, 1, 1}));
  EXPECT_EQ(output_of(made.graph, {2, 8, 6, 6}), (Shape{2, 5}));
}

// The embedding that shares its table with the last layer keeps it.
TEST(NewHead, LeavesWhatOthersRead) {
  Net net({4, 6});
  const ValueId table = net.weight("table", {6, 6});
  const ValueId hidden = net.builder.add("MatMul", {net.x, table});
  const NewHead made = replace_head(net.finish(net.builder.add("MatMul", {hidden, table})), "", 2, 1);
  EXPECT_EQ(constant(made.graph, "table").shape(), (Shape{6, 6}));
  EXPECT_EQ(output_of(made.graph, {4, 6}), (Shape{4, 2}));
}

TEST(NewHead, OfNetsOfTheZoo) {
  const ir::Graph graph = models::build_model("lenet5", {.dims = {{"batch", 2}}, .seed = 1});
  const NewHead made = replace_head(graph, "", 4, 1);
  EXPECT_EQ(made.graph.value(made.graph.outputs()[0]).type.shape().value(), (Shape{2, 4}));
}

TEST(NewHead, SaysWhyThereIsNone) {
  const auto refuses = [](const std::string& text, ir::Graph graph, const std::string& output = "") {
    expect_error_containing(ErrorKind::invalid_argument, text, [&] { replace_head(std::move(graph), output, 3, 1); });
  };
  Net plain({2, 4});
  refuses("ends at 'x' without a convolution or product", plain.finish(plain.builder.add("Relu", {plain.x})));
  Net two({2, 4});
  const ValueId both = two.builder.add("Add", {two.builder.add("MatMul", {two.x, two.weight("a", {4, 4})}), two.x});
  refuses("computes with 2 values", two.finish(both));
  Net scaled({2, 4});
  const ValueId product = scaled.builder.add("MatMul", {scaled.x, scaled.weight("w", {4, 6})});
  refuses("the net takes no other number of outputs than 6",
          scaled.finish(scaled.builder.add("Mul", {product, scaled.weight("scale", {6})})));
  Net named({2, 4});
  refuses("say by loss.logits", named.finish(named.builder.add("MatMul", {named.x, named.weight("w", {4, 6})})),
          "other");
}

TEST(InitialWeights, AreTakenByNameAndShape) {
  Net net({2, 4});
  const ValueId hidden = net.builder.add("MatMul", {net.x, net.weight("a", {4, 4})});
  ir::Graph graph = net.finish(net.builder.add("MatMul", {hidden, net.weight("b", {4, 6})}));
  const std::map<std::string, Tensor> weights{{"a", test::random_tensor(DType::f32, {4, 4}, 9, 5, 6)},
                                              {"b", test::random_tensor(DType::f32, {4, 7}, 9, 5, 6)}};
  const std::vector<std::string> taken = take_weights(graph, weights);
  EXPECT_EQ(taken, std::vector<std::string>{"a"});
  EXPECT_GE(constant(graph, "a").data<float>()[0], 5);
  EXPECT_LT(constant(graph, "b").data<float>()[0], 1);
  EXPECT_EQ(describe_taken(graph, weights, taken, "f.npz"),
            "1 of 2 constants are those of 'f.npz'; not b ([4, 7] there, [4, 6] here)");
  expect_error_containing(ErrorKind::invalid_argument, "none of the 1 weights of 'f.npz' has the name and shape",
                          [&] { describe_taken(graph, {{"c", weights.at("a")}}, {}, "f.npz"); });
}

}  // namespace
}  // namespace tessera::train::new_head_test
