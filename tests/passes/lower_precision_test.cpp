#include <gtest/gtest.h>

#include "ops/infer.h"
#include "runtime/random_inputs.h"
#include "support/pass_context.h"
#include "support/tolerance.h"
#include "tessera/error.h"
#include "tessera/session.h"

namespace tessera::passes::lower_precision_test {
namespace {

std::string weights(const std::string& name, const Shape& shape) {
  std::string elements;
  for (std::int64_t i = 0; i < element_count(shape); ++i) elements += (i == 0 ? "" : ", ") + std::to_string(static_cast<float>(i * 7 % 13) / 13.0f - 0.4f);
  return " constant %" + name + " = f32" + to_string(shape) + " {" + elements + "}";
}

const std::string kNet = "graph { input %x : f32[batch, 4, 6, 6]" + weights("w", {16, 4, 3, 3}) + weights("v", {8, 16, 1, 1}) + weights("d", {8, 1, 3, 3}) + weights("m", {6, 5}) +
                         " %1 = Conv (%x, %w) {pads = [1, 1, 1, 1]} %2 = Relu (%1) %3 = Conv (%2, %v) %4 = Conv (%3, %d) {group = 8, pads = [1, 1, 1, 1]} %5 = MatMul (%4, %m) output %5 }";

PassContext context(DType precision) {
  PassContext result = test::cpu_pass_context();
  result.precision = precision;
  return result;
}

// The element types of the results, in order.
std::vector<DType> types(const ir::Graph& graph) {
  std::vector<DType> result;
  for (const ir::NodeId id : graph.order()) result.push_back(graph.value(graph.node(id).outputs[0]).type.dtype);
  return result;
}

TEST(LowerPrecision, LayersRoundAndWhatOnlyTheyReadIsStoredRounded) {
  const PassContext asked = context(DType::bf16);
  const ir::Graph lowered = lower_precision(fuse_epilogues(channels_last(test::parsed(kNet), asked), asked), asked);
  std::vector<std::string> rounded;
  for (const ir::NodeId id : lowered.order()) {
    if (lowered.node(id).attributes.contains("precision")) rounded.push_back(lowered.node(id).op);
  }
  EXPECT_EQ(rounded, (std::vector<std::string>{"tessera::ChannelsLastConv", "tessera::ChannelsLastConv", "tessera::ChannelsLastConv", "tessera::Linear"}));
  const std::vector<DType> stored = types(lowered);
  EXPECT_EQ(std::count(stored.begin(), stored.end(), DType::bf16), 2);  // between the convolutions
}

// An inverted residual: what is between its layers is stored rounded, the sum of the two branches too.
TEST(LowerPrecision, DepthwiseLayersAndAddendsTakeWhatIsStoredRounded) {
  const PassContext asked = context(DType::bf16);
  const ir::Graph net = test::parsed("graph { input %x : f32[batch, 8, 6, 6]" + weights("w", {8, 8, 1, 1}) + weights("d", {8, 1, 3, 3}) + weights("v", {8, 8, 1, 1}) +
                                     " %1 = Conv (%x, %w) %2 = Conv (%1, %w) %3 = Conv (%2, %d) {group = 8, pads = [1, 1, 1, 1]} %4 = Conv (%3, %v) %5 = Add (%1, %4) %6 = Conv (%5, %w)"
                                     " %7 = Conv (%x, %d) {group = 8} %8 = Neg (%7) output %6 output %8 }");
  const ir::Graph lowered = lower_precision(fuse_epilogues(channels_last(net, asked), asked), asked);
  std::int64_t rounded = 0, stored = 0, plain = 0;
  for (const ir::NodeId id : lowered.order()) {
    const ir::Node& node = lowered.node(id);
    if (node.op != "tessera::ChannelsLastConv") continue;
    rounded += node.attributes.contains("precision");
    stored += node.attributes.contains("output_dtype");
    plain += !node.attributes.contains("precision");
  }
  EXPECT_EQ(rounded, 5);
  EXPECT_EQ(stored, 4);  // all but the last, which is a result
  EXPECT_EQ(plain, 1);   // the depthwise layer of the input
  const Model model(std::make_shared<const ir::Graph>(net));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions half;
  half.precision = DType::bf16;
  const NamedValues exact = Session(model).run(inputs), got = Session(model, half).run(inputs);
  EXPECT_TRUE(test::close_to(got.begin()->second.tensor(), exact.begin()->second.tensor(), test::Tolerance::epsilons(DType::bf16, 16)));
}

// The passes run again for a plan: what is stored rounded stays so.
TEST(LowerPrecision, MovementsOfWhatIsStoredRoundedStay) {
  const ir::Graph net = test::parsed("graph { input %x : f32[2, 8, 6, 6]" + weights("w", {8, 8, 1, 1}) +
                                     " %1 = Conv (%x, %w) %2 = MaxPool (%1) {kernel_shape = [2, 2], strides = [2, 2]} %3 = Conv (%2, %w) output %3 }");
  ir::Graph lowered = run_pipeline(net, context(DType::bf16));
  const std::vector<DType> stored = types(lowered);
  EXPECT_EQ(std::count(stored.begin(), stored.end(), DType::bf16), 2);
  EXPECT_EQ(types(run_pipeline(std::move(lowered), context(DType::bf16))), stored);
}

TEST(LowerPrecision, FullyConnectedLayersRound) {
  const PassContext asked = context(DType::bf16);
  const std::string text = "graph { input %x : f32[batch, 6]" + weights("w", {5, 6}) + weights("b", {5}) + weights("v", {5, 4}) + weights("c", {1, 4}) +
                           " %1 = Gemm (%x, %w, %b) {transB = 1} %2 = Relu (%1) %3 = Gemm (%2, %v) %4 = Gemm (%2, %v, %c) output %3, %4 }";
  const ir::Graph lowered = lower_precision(fuse_epilogues(test::parsed(text), asked), asked);
  EXPECT_EQ(test::ops_of(lowered), (std::vector<std::string>{"tessera::Linear Relu", "tessera::Linear", "Gemm"}));  // a matrix is no bias
}

TEST(LowerPrecision, WhatLiesBehindMovementsIsStoredRoundedWhenAllOfItIs) {
  const PassContext asked = context(DType::bf16);
  const auto stored = [&](const std::string& rest) {
    const ir::Graph lowered = lower_precision(fuse_epilogues(channels_last(test::parsed("graph { input %x : f32[1, 8, 6, 6]" + weights("w", {8, 8, 1, 1}) + weights("v", {8, 16, 1, 1}) +
                                                                                         " %1 = Conv (%x, %w) %2 = MaxPool (%1) {kernel_shape = [2, 2]} " + rest), asked), asked), asked);
    const std::vector<DType> all = types(lowered);
    return std::count(all.begin(), all.end(), DType::bf16);
  };
  EXPECT_EQ(stored("%3 = Conv (%2, %w) output %3 }"), 2);
  EXPECT_EQ(stored("%3 = Conv (%2, %w) %4 = Concat (%2, %3) {axis = 1} %5 = Conv (%4, %v) output %5 }"), 4);
  EXPECT_EQ(stored("%3 = Neg (%2) %4 = Concat (%2, %3) {axis = 1} %5 = Conv (%4, %v) output %5 }"), 0);
  EXPECT_EQ(stored("%3 = Conv (%2, %w) output %3, %2 }"), 0);
}

std::string attention_net(const std::string& rest) {
  return "graph { input %x : f32[2, 5, 8]" + weights("w", {8, 8}) + weights("v", {8, 8}) + " %n = Relu (%x) %q = MatMul (%n, %w) %k = MatMul (%n, %v) %u = MatMul (%n, %w) " + rest;
}

TEST(LowerPrecision, AttentionBetweenLayersTakesAndGivesWhatIsStoredRounded) {
  const PassContext asked = context(DType::bf16);
  const auto stored = [&](const std::string& rest) {
    std::string result;
    const ir::Graph lowered = lower_precision(test::parsed(attention_net(rest)), asked);
    for (const ir::NodeId id : lowered.order()) {
      const ir::Node& node = lowered.node(id);
      if (node.op == "Attention") result += lowered.value(node.inputs[0]).type.dtype == DType::bf16 && lowered.value(node.outputs[0]).type.dtype == DType::bf16 ? "rounded " : "float ";
      if (node.op == "Cast") result += "cast ";
    }
    return result;
  };
  const std::string heads = " {q_num_heads = 2, kv_num_heads = 2} ";
  // The three layers round their data once.
  EXPECT_EQ(stored("%a = Attention (%q, %k, %u)" + heads + "%y = MatMul (%a, %w) output %y }"), "cast rounded ");
  EXPECT_EQ(stored("%a = Attention (%q, %k, %u)" + heads + "%y = Neg (%a) output %y }"), "cast float ");
  EXPECT_EQ(stored("%m = Neg (%u) %a = Attention (%q, %k, %m)" + heads + "%y = MatMul (%a, %w) output %y }"), "cast float ");
  EXPECT_EQ(stored("%a = Attention (%q, %k, %u)" + heads + "%y = MatMul (%a, %w) %z = Neg (%q) output %y, %z }"), "cast float ");
  EXPECT_EQ(stored("%a = Attention (%q, %k, %u) {q_num_heads = 8, kv_num_heads = 8} %y = MatMul (%a, %w) output %y }"), "cast float ");  // heads of odd size
  const Model model(std::make_shared<const ir::Graph>(test::parsed(attention_net("%a = Attention (%q, %k, %u)" + heads + "%y = MatMul (%a, %w) output %y }"))));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions half;
  half.precision = DType::bf16;
  const NamedValues exact = Session(model).run(inputs), got = Session(model, half).run(inputs);
  EXPECT_FALSE(identical(got.begin()->second.tensor(), exact.begin()->second.tensor()));
  EXPECT_TRUE(test::close_to(got.begin()->second.tensor(), exact.begin()->second.tensor(), test::Tolerance::epsilons(DType::bf16, 16)));
}

// One matrix as it is and transposed.
TEST(LowerPrecision, WeightsThatTwoLayersReadInTwoWays) {
  const Model model(std::make_shared<const ir::Graph>(
      test::parsed("graph { input %x : f32[4, 300]" + weights("w", {300, 1}) + " %1 = MatMul (%x, %w) %2 = Relu (%1) %3 = Gemm (%2, %w) {transB = 1} output %1, %3 }")));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions half;
  half.precision = DType::bf16;
  const NamedValues exact = Session(model).run(inputs), got = Session(model, half).run(inputs);
  for (const auto& [name, value] : exact) EXPECT_TRUE(test::close_to(got.at(name).tensor(), value.tensor(), {.relative = 0.02, .absolute = 0.1})) << name;
}

TEST(LowerPrecision, TakesNodesWhoseFirstOutputNobodyWants) {
  ir::Graph graph = test::parsed("graph { input %x : f32[2, 4] constant %k = i64[1] {2}" + weights("w", {4, 8}) + " %y = MatMul (%x, %w) output %y }");
  const ir::ValueId places = graph.add_value("places");
  graph.add_node({"TopK", "", {graph.inputs()[0], graph.find_value("k")}, {ir::ValueId{}, places}, {}, 0});
  graph.add_output(places);
  ops::infer_graph(graph);
  EXPECT_EQ(lower_precision(std::move(graph), context(DType::bf16)).node_count(), 2u);
}

TEST(LowerPrecision, NothingChangesUnasked) {
  const PassContext plain = context(DType::f32);
  const ir::Graph before = channels_last(test::parsed(kNet), plain);
  EXPECT_TRUE(ir::structurally_equal(lower_precision(before, plain), before));
}

TEST(LowerPrecision, ResultsAreThoseOfRoundedLayers) {
  const Model model(std::make_shared<const ir::Graph>(test::parsed(kNet)));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions half;
  half.precision = DType::bf16;
  const Tensor exact = Session(model).run(inputs).begin()->second.tensor(), got = Session(model, half).run(inputs).begin()->second.tensor();
  EXPECT_FALSE(identical(got, exact));
  EXPECT_TRUE(test::close_to(got, exact, test::Tolerance::epsilons(DType::bf16, 16)));
}

TEST(LowerPrecision, OtherPrecisionsAreRefused) {
  const Model model(std::make_shared<const ir::Graph>(test::parsed("graph { input %x : f32[2] %y = Relu (%x) output %y }")));
  SessionOptions options;
  options.precision = DType::i8;
  EXPECT_THROW(Session(model, options), Error);
  options.precision = DType::bf16;
  options.device = "reference";  // computes as the model says
  EXPECT_THROW(Session(model, options), Error);
}

}  // namespace
}  // namespace tessera::passes::lower_precision_test
