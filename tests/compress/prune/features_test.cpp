// Heads of attention and channels that leave a net, in the forms that exporters write it.
// Length: one net for each form, which only its own test uses.
#include "compress/prune/features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <tuple>

#include "models/models.h"
#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/pruned_model.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "support/tolerance.h"
#include "tessera/prune.h"
#include "tessera/session.h"

namespace tessera::compress::features_test {
namespace {

using ir::ValueId;
using test::masked;
using test::output_of;
using Integers = std::vector<std::int64_t>;

constexpr std::int64_t kWidth = 24, kHeads = 4, kSize = kWidth / kHeads;

// The smaller net computes what the large one computes with zeros where the heads were, and is what a file holds.
void expect_same_as_masked(const Model& model, const Model& smaller, const PruneReport& report) {
  const Tensor actual = output_of(smaller);
  EXPECT_TRUE(test::close_to(actual, output_of(masked(model, report)), test::Tolerance::epsilons(DType::f32, 500)));
  const test::TemporaryFolder folder;
  write_pruned(smaller, (folder / "small.onnx").string());
  EXPECT_TRUE(identical(output_of(Model::load(folder / "small.onnx")), actual));
}

Shape shape_in(const Model& model, const std::string& name) {
  const Tensor* constant = model.graph().constant(model.graph().find_value(name));
  return constant == nullptr ? Shape() : constant->shape();
}

TEST(Heads, LeaveTheNetsOfTheBuilders) {
  using Sizes = std::map<std::string, std::int64_t>;
  for (const auto& [name, dims, width] : {std::tuple("transformer_small", Sizes{{"batch", 2}, {"seq", 6}}, 64),
                                          std::tuple("bert_mini", Sizes{{"batch", 2}, {"seq", 5}}, 256)}) {
    SCOPED_TRACE(name);
    const Model model(std::make_shared<const ir::Graph>(models::build_model(name, {.dims = dims})));
    PruneReport report;
    const Model smaller = prune(model, {.sparsity = 0.5, .structure = "heads"}, &report);
    EXPECT_EQ(shape_in(smaller, "layer0/attention/query.weight"), (Shape{width, width / 2}));
    EXPECT_EQ(shape_in(smaller, "layer1/attention/value.bias"), (Shape{width / 2}));
    EXPECT_EQ(shape_in(smaller, "layer1/attention/output.weight"), (Shape{width / 2, width}));
    EXPECT_EQ(shape_in(smaller, "layer1/feed_forward/up.weight"), (Shape{width, 4 * width}));
    expect_same_as_masked(model, smaller, report);
  }
}

// Attention over x [batch, length, kWidth], as it is spelt out.
class Attention {
 public:
  Attention() : builder_(graph_) {
    x_ = graph_.add_input(
        "x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), ir::Dim::symbol("length"), kWidth}));
  }

  ValueId x() const { return x_; }
  ir::Graph& graph() { return graph_; }
  ValueId add(const char* op, std::vector<ValueId> inputs, ir::Attributes attributes = {}) {
    return builder_.add(op, std::move(inputs), std::move(attributes));
  }
  ValueId integers(Integers values) { return builder_.integers(std::move(values)); }
  ValueId number(std::int64_t value) { return builder_.scalar(static_cast<double>(value), DType::i64); }
  ValueId weight(const std::string& name, const Shape& shape) {
    return builder_.constant(test::random_tensor(DType::f32, shape, ++seed_, -0.5, 0.5), name);
  }
  ValueId project(const std::string& name, std::int64_t outputs) {
    return add("Add", {weight(name + ".bias", {outputs}), add("MatMul", {x_, weight(name, {kWidth, outputs})})});
  }
  ValueId permute(ValueId value, Integers permutation) {
    return add("Transpose", {value}, {{"perm", std::move(permutation)}});
  }
  // As PyTorch exports view(x.size(0), x.size(1), …): batch and length are computed when the net runs.
  ValueId view(ValueId value, const Integers& rest) {
    std::vector<ValueId> parts;
    for (const std::int64_t axis : {0, 1})
      parts.push_back(add("Unsqueeze", {add("Gather", {add("Shape", {x_}), number(axis)}), integers({0})}));
    for (const std::int64_t size : rest) parts.push_back(integers({size}));
    return add("Reshape", {value, add("Concat", parts, {{"axis", std::int64_t{0}}})});
  }
  // From query, key and value [batch, heads, length, kSize] to the end.
  Model finish(ValueId query, ValueId key, ValueId value, ValueId mask = {}) {
    ValueId scores = add("MatMul", {query, permute(key, {0, 1, 3, 2})});
    scores = add("Div", {scores, builder_.scalar(std::sqrt(static_cast<double>(kSize)))});
    if (mask.valid()) scores = add("Add", {scores, mask});
    const ValueId mixed = add("MatMul", {add("Softmax", {scores}, {{"axis", std::int64_t{3}}}), value});
    const ValueId joined = view(permute(mixed, {0, 2, 1, 3}), {kWidth});
    ValueId y = add("Add", {add("MatMul", {joined, weight("out", {kWidth, kWidth})}), weight("out.bias", {kWidth})});
    y = add("LayerNormalization", {add("Add", {y, x_}), weight("norm", {kWidth}), weight("norm.bias", {kWidth})});
    graph_.value(y).name = "y";
    graph_.add_output(y);
    graph_.remove_dead_and_compact();
    return Model(std::make_shared<const ir::Graph>(graph_)).with_dims({{"batch", 2}, {"length", 5}});
  }

 private:
  ir::Graph graph_;
  ops::GraphBuilder builder_;
  ValueId x_;
  std::uint64_t seed_ = 0;
};

TEST(Heads, LeaveBertAsPyTorchExportsIt) {
  Attention net;
  const auto heads = [&](const char* name) {
    return net.permute(net.view(net.project(name, kWidth), {kHeads, kSize}), {0, 2, 1, 3});
  };
  const ValueId query = heads("query"), key = heads("key"), value = heads("value");
  const ValueId mask = net.graph().add_input(
      "mask", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 1, 1, ir::Dim::symbol("length")}));
  const Model model = net.finish(query, key, value, mask);
  PruneReport report;
  const Model smaller = prune(model, {.sparsity = 0.25, .structure = "heads"}, &report);
  for (const char* name : {"query", "key", "value"}) {
    EXPECT_EQ(shape_in(smaller, name), (Shape{kWidth, kWidth - kSize})) << name;
    EXPECT_EQ(shape_in(smaller, std::string(name) + ".bias"), (Shape{kWidth - kSize})) << name;
  }
  EXPECT_EQ(shape_in(smaller, "out"), (Shape{kWidth - kSize, kWidth}));
  EXPECT_EQ(shape_in(smaller, "out.bias"), (Shape{kWidth}));
  EXPECT_TRUE(report.kept_by.empty());
  expect_same_as_masked(model, smaller, report);
}

TEST(Heads, LeaveFusedProjections) {
  const auto separate = [](Attention& net, ValueId part) {
    return net.permute(net.view(part, {kHeads, kSize}), {0, 2, 1, 3});
  };
  const auto by_split = [&](Attention& net) {
    const ValueId all = net.project("all", 3 * kWidth);
    ops::GraphBuilder builder(net.graph());
    const auto parts =
        builder.add_multi("Split", {all, net.integers({kWidth, kWidth, kWidth})}, 3, {{"axis", std::int64_t{-1}}});
    return net.finish(separate(net, parts[0]), separate(net, parts[1]), separate(net, parts[2]));
  };
  const auto by_slice = [&](Attention& net) {
    const ValueId all = net.project("all", 3 * kWidth);
    const auto part = [&](std::int64_t i) {
      return net.add("Slice", {all, net.integers({i * kWidth}), net.integers({(i + 1) * kWidth}), net.integers({2})});
    };
    return net.finish(separate(net, part(0)), separate(net, part(1)), separate(net, part(2)));
  };
  // [batch, length, 3, heads, size] → [3, batch, heads, length, size], of which each is gathered.
  const auto by_gather = [&](Attention& net) {
    const ValueId all = net.permute(net.view(net.project("all", 3 * kWidth), {3, kHeads, kSize}), {2, 0, 3, 1, 4});
    const auto part = [&](std::int64_t i) { return net.add("Gather", {all, net.number(i)}); };
    return net.finish(part(0), part(1), part(2));
  };
  int form = 0;
  for (const std::function<Model(Attention&)>& make :
       {std::function<Model(Attention&)>(by_split), std::function<Model(Attention&)>(by_slice),
        std::function<Model(Attention&)>(by_gather)}) {
    SCOPED_TRACE(form++);
    Attention net;
    const Model model = make(net);
    PruneReport report;
    const Model smaller = prune(model, {.sparsity = 0.5, .structure = "heads"}, &report);
    EXPECT_EQ(shape_in(smaller, "all"), (Shape{kWidth, 3 * kWidth / 2}));
    EXPECT_EQ(shape_in(smaller, "all.bias"), (Shape{3 * kWidth / 2}));
    EXPECT_EQ(shape_in(smaller, "out"), (Shape{kWidth / 2, kWidth}));
    expect_same_as_masked(model, smaller, report);
  }
}

// nn.MultiheadAttention: one projection as [3, width] of which each is gathered, and heads that lie beside the batch in
// one axis on their way.
TEST(Heads, LeaveMultiheadAttentionAsPyTorchExportsIt) {
  for (const bool keys_by_reshape : {false, true}) {
    Attention net;
    const auto reshape = [&](ValueId value, const Integers& shape) {
      return net.add("Reshape", {value, net.integers(shape)});
    };
    ValueId all = net.permute(net.project("all", 3 * kWidth), {1, 0, 2});
    all = net.add("Unsqueeze", {reshape(all, {5, -1, 3, kWidth}), net.integers({0})});
    all = net.add("Squeeze", {net.permute(all, {3, 1, 2, 0, 4}), net.integers({-2})});
    const auto part = [&](std::int64_t i) {
      const ValueId merged = net.permute(
          reshape(net.add("Gather", {all, net.number(i)}, {{"axis", std::int64_t{0}}}), {5, -1, kSize}), {1, 0, 2});
      return reshape(merged, {-1, kHeads, 5, kSize});
    };
    const ValueId query = part(0), key = part(1), value = part(2);
    ValueId turned = net.permute(key, {0, 1, 3, 2});
    if (keys_by_reshape) turned = reshape(net.permute(reshape(key, {-1, 5, kSize}), {0, 2, 1}), {-1, kHeads, kSize, 5});
    const ValueId scores = net.add("Softmax", {net.add("MatMul", {query, turned})}, {{"axis", std::int64_t{-1}}});
    const ValueId mixed = net.permute(net.add("MatMul", {scores, value}), {2, 0, 1, 3});
    const ValueId out = net.add("Gemm", {reshape(mixed, {-1, kWidth}), net.weight("out", {kWidth, kWidth})},
                                {{"transB", std::int64_t{1}}});
    const ValueId y = net.add("Add", {net.permute(reshape(out, {5, -1, kWidth}), {1, 0, 2}), net.x()});
    net.graph().value(y).name = "y";
    net.graph().add_output(y);
    const Model model = Model(std::make_shared<const ir::Graph>(net.graph())).with_dims({{"length", 5}, {"batch", 2}});
    PruneReport report;
    const Model smaller = prune(model, {.sparsity = 0.5, .structure = "heads"}, &report);
    EXPECT_EQ(shape_in(smaller, "all"), (Shape{kWidth, 3 * kWidth / 2}));
    EXPECT_EQ(shape_in(smaller, "out"), (Shape{kWidth, kWidth / 2}));
    expect_same_as_masked(model, smaller, report);
  }
}

// Layers with the same weights, as PyTorch writes copies of a layer that were not trained, lose the same features.
TEST(Channels, OfSharedWeightsStayShared) {
  Attention net;
  const ValueId up = net.weight("up", {kWidth, 48}), down = net.weight("down", {48, kWidth});
  ValueId y = net.x();
  for (int i = 0; i < 2; ++i)
    y = net.add("Add", {y, net.add("MatMul", {net.add("Relu", {net.add("MatMul", {y, up})}), down})});
  net.graph().value(y).name = "y";
  net.graph().add_output(y);
  const Model model = Model(std::make_shared<const ir::Graph>(net.graph())).with_dims({{"batch", 2}, {"length", 5}});
  PruneReport report;
  const Model smaller = prune(model, {.sparsity = 0.5, .structure = "channels"}, &report);
  EXPECT_EQ(report.parameters_after, 2 * kWidth * 24);
  expect_same_as_masked(model, smaller, report);
}

// Two layers of one attention, whose weights are as they are, or transposed where they are used, the second time behind
// a copy, as exporters of PyTorch write them.
Model shared_attention(bool transposed, bool tied_table = false) {
  Attention net;
  std::map<std::string, ValueId> weights;
  for (const char* name : {"query", "key", "value", "out"}) {
    const ValueId id = weights[name] = net.weight(name, {kWidth, kWidth});
    if (!transposed) continue;
    const Tensor plain = *net.graph().constant(id);
    Tensor turned = plain.clone();
    for (std::int64_t i = 0; i < plain.elements(); ++i)
      turned.mutable_data<float>()[i % kWidth * kWidth + i / kWidth] = plain.data<float>()[i];
    net.graph().value(id).name = "";
    weights[name] = net.graph().add_constant(turned, name);
  }
  ValueId y = net.x();
  for (int layer = 0; layer < 2; ++layer) {
    const auto product = [&](ValueId x, const char* name) {
      ValueId weight = weights.at(name);
      if (transposed && layer == 1) weight = net.add("Identity", {weight});
      return net.add("MatMul", {x, transposed ? net.permute(weight, {1, 0}) : weight});
    };
    const auto heads = [&](const char* name) {
      return net.permute(net.view(product(y, name), {kHeads, kSize}), {0, 2, 1, 3});
    };
    const ValueId scores = net.add("MatMul", {heads("query"), net.permute(heads("key"), {0, 1, 3, 2})});
    const ValueId mixed =
        net.add("MatMul", {net.add("Softmax", {scores}, {{"axis", std::int64_t{3}}}), heads("value")});
    y = net.add("Add", {y, product(net.view(net.permute(mixed, {0, 2, 1, 3}), {kWidth}), "out")});
  }
  if (tied_table) {
    const ValueId table = net.weight("table", {100 * kWidth, kWidth});
    y = net.add("MatMul", {net.add("MatMul", {y, net.permute(table, {1, 0})}), table});
  }
  net.graph().value(y).name = "y";
  net.graph().add_output(y);
  net.graph().remove_dead_and_compact();
  return Model(std::make_shared<const ir::Graph>(net.graph())).with_dims({{"batch", 2}, {"length", 5}});
}

TEST(Heads, OfSharedWeightsStayShared) {
  const Model plain = shared_attention(false), transposed = shared_attention(true);
  PruneReport report;
  const Model smaller = prune(plain, {.sparsity = 0.5, .structure = "heads"}, &report);
  EXPECT_EQ(report.parameters_after, 4 * kWidth * kWidth / 2);
  expect_same_as_masked(plain, smaller, report);
  const Model other = prune(transposed, {.sparsity = 0.5, .structure = "heads"}, &report);
  EXPECT_EQ(report.parameters_before, 4 * kWidth * kWidth);
  EXPECT_EQ(report.parameters_after, 4 * kWidth * kWidth / 2);
  EXPECT_TRUE(test::close_to(output_of(other), output_of(smaller), test::Tolerance::epsilons(DType::f32, 500)));
}

TEST(Heads, StayWhereSharedWeightsWouldGrow) {
  const Model model = shared_attention(true, true);
  test::expect_error_containing(ErrorKind::invalid_argument, "it has shared weights, which several layers use",
                                [&] { prune(model, {.sparsity = 0.5, .structure = "heads"}); });
}

// Channels along the last axis, of tokens.
TEST(Channels, OfFeedForwardLayersLeaveATransformer) {
  const Model model(
      std::make_shared<const ir::Graph>(models::build_model("bert_mini", {.dims = {{"batch", 2}, {"seq", 5}}})));
  PruneReport report;
  const Model smaller = prune(model, {.sparsity = 0.5, .structure = "channels"}, &report);
  EXPECT_EQ(shape_in(smaller, "layer1/feed_forward/up.weight"), (Shape{256, 512}));
  EXPECT_EQ(shape_in(smaller, "layer1/feed_forward/down.weight"), (Shape{512, 256}));
  EXPECT_EQ(shape_in(smaller, "layer0/attention/query.weight"), (Shape{256, 256}));
  expect_same_as_masked(model, smaller, report);
}

TEST(Channels, OfAGatedProjectionGoInPairs) {
  Attention net;
  ops::GraphBuilder builder(net.graph());
  const auto halves =
      builder.add_multi("Split", {net.project("up", 64), net.integers({32, 32})}, 2, {{"axis", std::int64_t{-1}}});
  const ValueId gated = net.add("Mul", {net.add("Sigmoid", {halves[0]}), halves[1]});
  const ValueId y = net.add("MatMul", {gated, net.weight("down", {32, kWidth})});
  net.graph().value(y).name = "y";
  net.graph().add_output(y);
  const Model model = Model(std::make_shared<const ir::Graph>(net.graph())).with_dims({{"batch", 2}, {"length", 5}});
  PruneReport report;
  const Model smaller = prune(model, {.sparsity = 0.25, .structure = "channels"}, &report);
  EXPECT_EQ(shape_in(smaller, "up"), (Shape{kWidth, 48}));
  EXPECT_EQ(shape_in(smaller, "down"), (Shape{24, kWidth}));
  expect_same_as_masked(model, smaller, report);
}

// What reduces space or moves axes leaves channels as they are.
TEST(Channels, GoBeforeMeansOverSpace) {
  for (const bool keeps_axes : {false, true}) {
    ir::Graph graph;
    ops::GraphBuilder builder(graph);
    const auto weight = [&](const char* name, const Shape& shape, std::uint64_t seed) {
      return graph.add_constant(test::random_tensor(DType::f32, shape, seed, -1, 1), name);
    };
    const ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{2, 3, 6, 5}));
    ValueId y = builder.add("Relu", {builder.add("Conv", {x, weight("conv", {16, 3, 3, 3}, 1)})});
    y = builder.add("ReduceMean", {y, builder.integers({2, 3})}, {{"keepdims", std::int64_t{keeps_axes ? 1 : 0}}});
    if (keeps_axes) y = builder.add("Squeeze", {y, builder.integers({3, 2})});
    y = builder.add("Gemm", {y, weight("head", {7, 16}, 2)}, {{"transB", std::int64_t{1}}});
    graph.value(y).name = "y";
    graph.add_output(y);
    const Model model(std::make_shared<const ir::Graph>(graph));
    PruneReport report;
    const Model smaller = prune(model, {.sparsity = 0.5, .structure = "channels"}, &report);
    EXPECT_EQ(shape_in(smaller, "conv"), (Shape{8, 3, 3, 3}));
    EXPECT_EQ(shape_in(smaller, "head"), (Shape{7, 8}));
    expect_same_as_masked(model, smaller, report);
  }
}

// Shuffled groups would lose different numbers of channels.
TEST(Channels, StayWhereAReshapeCouldNotKeepItsShape) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const auto weight = [&](const char* name, const Shape& shape, std::uint64_t seed) {
    return graph.add_constant(test::random_tensor(DType::f32, shape, seed, -1, 1), name);
  };
  const ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{2, 3, 6, 5}));
  ValueId y = builder.add("Conv", {x, weight("conv", {8, 3, 1, 1}, 1)});
  y = builder.add("Reshape", {y, builder.integers({2, 2, 4, 6, 5})});
  y = builder.add("Transpose", {y}, {{"perm", Integers{0, 2, 1, 3, 4}}});
  y = builder.add("Reshape", {y, builder.integers({2, 8, 6, 5})});
  y = builder.add("Relu", {builder.add("Conv", {y, weight("second", {6, 8, 1, 1}, 2)})});
  y = builder.add("Conv", {y, weight("third", {4, 6, 1, 1}, 3)});
  graph.value(y).name = "y";
  graph.add_output(y);
  const Model model(std::make_shared<const ir::Graph>(graph));
  PruneReport report;
  const Model smaller = prune(model, {.sparsity = 0.5, .structure = "channels"}, &report);
  EXPECT_EQ(shape_in(smaller, "conv"), (Shape{8, 3, 1, 1}));
  EXPECT_EQ(shape_in(smaller, "second"), (Shape{3, 8, 1, 1}));
  expect_same_as_masked(model, smaller, report);
}

TEST(Heads, TheSmallestGo) {
  Attention net;
  const auto heads = [&](const char* name) {
    return net.permute(net.view(net.project(name, kWidth), {kHeads, kSize}), {0, 2, 1, 3});
  };
  const ValueId query = heads("query"), key = heads("key"), value = heads("value");
  // The third head has small weights.
  for (const char* name : {"query", "key", "value"}) {
    const ValueId id = net.graph().find_value(name);
    Tensor small = net.graph().constant(id)->clone();
    for (std::int64_t i = 0; i < small.elements(); ++i)
      if (i % kWidth / kSize == 2) small.mutable_data<float>()[i] *= 0.1f;
    net.graph().value(id).name = "";
    net.graph().replace_uses(id, net.graph().add_constant(small, name));
  }
  PruneReport report;
  prune(net.finish(query, key, value), {.sparsity = 0.25, .structure = "heads"}, &report);
  const auto layer = std::ranges::find(report.layers, "key", &PrunedLayer::name);
  ASSERT_NE(layer, report.layers.end());
  EXPECT_EQ(layer->removed_outputs, (Integers{12, 13, 14, 15, 16, 17}));
}

TEST(Heads, StayWhereAnOperatorMixesThem) {
  Attention net;
  const auto heads = [&](const char* name) {
    return net.permute(net.view(net.project(name, kWidth), {kHeads, kSize}), {0, 2, 1, 3});
  };
  const ValueId query = net.add("Softmax", {heads("query")}, {{"axis", std::int64_t{1}}});
  const ValueId key = heads("key"), value = heads("value");
  const Model model = net.finish(query, key, value);
  test::expect_error_containing(ErrorKind::invalid_argument,
                                "no head of attention can go: they are kept by node 'Softmax",
                                [&] { prune(model, {.sparsity = 0.5, .structure = "heads"}); });
}

TEST(Heads, AreMissedInANetWithoutAttention) {
  const Model model(std::make_shared<const ir::Graph>(models::build_model("mlp", {.dims = {{"batch", 2}}})));
  test::expect_error_containing(ErrorKind::invalid_argument, "no head of attention can go",
                                [&] { prune(model, {.sparsity = 0.5, .structure = "heads"}); });
}

}  // namespace
}  // namespace tessera::compress::features_test
