#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "models/models.h"
#include "ops/core/infer.h"
#include "passes/pipeline.h"
#include "runtime/session/random_inputs.h"
#include "support/pass_context.h"
#include "support/tolerance.h"
#include "tessera/error.h"
#include "tessera/session.h"

namespace tessera::passes::lower_precision_test {
namespace {

std::string weights(const std::string& name, const Shape& shape) {
  std::string elements;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    elements += (i == 0 ? "" : ", ") + std::to_string(static_cast<float>(i * 7 % 13) / 13.0f - 0.4f);
  return " constant %" + name + " = f32" + to_string(shape) + " {" + elements + "}";
}

const std::string kNet = "graph { input %x : f32[batch, 4, 6, 6]" + weights("w", {16, 4, 3, 3}) +
                         weights("v", {8, 16, 1, 1}) + weights("d", {8, 1, 3, 3}) + weights("m", {6, 5}) +
                         " %1 = Conv (%x, %w) {pads = [1, 1, 1, 1]} %2 = Relu (%1) %3 = Conv (%2, %v) %4 = Conv (%3, "
                         "%d) {group = 8, pads = [1, 1, 1, 1]} %5 = MatMul (%4, %m) output %5 }";

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
  EXPECT_EQ(rounded, (std::vector<std::string>{"tessera::ChannelsLastConv", "tessera::ChannelsLastConv",
                                               "tessera::ChannelsLastConv", "tessera::Linear"}));
  const std::vector<DType> stored = types(lowered);
  EXPECT_EQ(std::count(stored.begin(), stored.end(), DType::bf16),
            4);  // between the convolutions, and before and behind the Transpose to the product
}

// An inverted residual: what is between its layers is stored rounded, the sum of the two branches too.
TEST(LowerPrecision, DepthwiseLayersAndAddendsTakeWhatIsStoredRounded) {
  const PassContext asked = context(DType::bf16);
  const ir::Graph net = test::parsed("graph { input %x : f32[batch, 8, 6, 6]" + weights("w", {8, 8, 1, 1}) +
                                     weights("d", {8, 1, 3, 3}) + weights("v", {8, 8, 1, 1}) +
                                     " %1 = Conv (%x, %w) %2 = Conv (%1, %w) %3 = Conv (%2, %d) {group = 8, pads = [1, "
                                     "1, 1, 1]} %4 = Conv (%3, %v) %5 = Add (%1, %4) %6 = Conv (%5, %w)"
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
  EXPECT_TRUE(test::close_to(got.begin()->second.tensor(), exact.begin()->second.tensor(),
                             test::Tolerance::epsilons(DType::bf16, 16)));
}

// The passes run again for a plan: what is stored rounded stays so.
TEST(LowerPrecision, MovementsOfWhatIsStoredRoundedStay) {
  const ir::Graph net = test::parsed(
      "graph { input %x : f32[2, 8, 6, 6]" + weights("w", {8, 8, 1, 1}) +
      " %1 = Conv (%x, %w) %2 = MaxPool (%1) {kernel_shape = [2, 2], strides = [2, 2]} %3 = Conv (%2, %w) output %3 }");
  ir::Graph lowered = run_pipeline(net, context(DType::bf16));
  const std::vector<DType> stored = types(lowered);
  EXPECT_EQ(std::count(stored.begin(), stored.end(), DType::bf16), 2);
  EXPECT_EQ(types(run_pipeline(std::move(lowered), context(DType::bf16))), stored);
}

TEST(LowerPrecision, FullyConnectedLayersRound) {
  const PassContext asked = context(DType::bf16);
  const std::string text =
      "graph { input %x : f32[batch, 6]" + weights("w", {5, 6}) + weights("b", {5}) + weights("v", {5, 4}) +
      weights("c", {1, 4}) +
      " %1 = Gemm (%x, %w, %b) {transB = 1} %2 = Relu (%1) %3 = Gemm (%2, %v) %4 = Gemm (%2, %v, %c) output %3, %4 }";
  const ir::Graph lowered = lower_precision(fuse_epilogues(test::parsed(text), asked), asked);
  EXPECT_EQ(test::ops_of(lowered),
            (std::vector<std::string>{"tessera::Linear Relu", "tessera::Linear", "Gemm"}));  // a matrix is no bias
}

TEST(LowerPrecision, WhatLiesBehindMovementsIsStoredRoundedWhenAllOfItIs) {
  const PassContext asked = context(DType::bf16);
  const auto stored = [&](const std::string& rest) {
    const ir::Graph lowered = lower_precision(
        fuse_epilogues(
            channels_last(test::parsed("graph { input %x : f32[1, 8, 6, 6]" + weights("w", {8, 8, 1, 1}) +
                                       weights("v", {8, 16, 1, 1}) +
                                       " %1 = Conv (%x, %w) %2 = MaxPool (%1) {kernel_shape = [2, 2]} " + rest),
                          asked),
            asked),
        asked);
    const std::vector<DType> all = types(lowered);
    return std::count(all.begin(), all.end(), DType::bf16);
  };
  EXPECT_EQ(stored("%3 = Conv (%2, %w) output %3 }"), 2);
  EXPECT_EQ(stored("%3 = Conv (%2, %w) %4 = Concat (%2, %3) {axis = 1} %5 = Conv (%4, %v) output %5 }"), 4);
  EXPECT_EQ(stored("%3 = Neg (%2) %4 = Concat (%2, %3) {axis = 1} %5 = Conv (%4, %v) output %5 }"), 0);
  EXPECT_EQ(stored("%3 = Conv (%2, %w) output %3, %2 }"), 0);
}

std::string attention_net(const std::string& rest) {
  return "graph { input %x : f32[2, 5, 8]" + weights("w", {8, 8}) + weights("v", {8, 8}) +
         " %n = Relu (%x) %q = MatMul (%n, %w) %k = MatMul (%n, %v) %u = MatMul (%n, %w) " + rest;
}

TEST(LowerPrecision, AttentionBetweenLayersTakesAndGivesWhatIsStoredRounded) {
  const PassContext asked = context(DType::bf16);
  const auto stored = [&](const std::string& rest) {
    std::string result;
    const ir::Graph lowered = lower_precision(test::parsed(attention_net(rest)), asked);
    for (const ir::NodeId id : lowered.order()) {
      const ir::Node& node = lowered.node(id);
      if (node.op == "Attention")
        result += lowered.value(node.inputs[0]).type.dtype == DType::bf16 &&
                          lowered.value(node.outputs[0]).type.dtype == DType::bf16
                      ? "rounded "
                      : "float ";
      if (node.op == "Cast") result += "cast ";
    }
    return result;
  };
  const std::string heads = " {q_num_heads = 2, kv_num_heads = 2} ";
  // The three layers round their data once.
  EXPECT_EQ(stored("%a = Attention (%q, %k, %u)" + heads + "%y = MatMul (%a, %w) output %y }"), "cast rounded ");
  EXPECT_EQ(stored("%a = Attention (%q, %k, %u)" + heads + "%y = Neg (%a) output %y }"), "cast float ");
  EXPECT_EQ(stored("%m = Neg (%u) %a = Attention (%q, %k, %m)" + heads + "%y = MatMul (%a, %w) output %y }"),
            "cast float ");
  EXPECT_EQ(stored("%a = Attention (%q, %k, %u)" + heads + "%y = MatMul (%a, %w) %z = Neg (%q) output %y, %z }"),
            "cast float ");
  EXPECT_EQ(stored("%a = Attention (%q, %k, %u) {q_num_heads = 8, kv_num_heads = 8} %y = MatMul (%a, %w) output %y }"),
            "cast float ");  // heads of odd size
  const Model model(std::make_shared<const ir::Graph>(
      test::parsed(attention_net("%a = Attention (%q, %k, %u)" + heads + "%y = MatMul (%a, %w) output %y }"))));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions half;
  half.precision = DType::bf16;
  const NamedValues exact = Session(model).run(inputs), got = Session(model, half).run(inputs);
  EXPECT_FALSE(identical(got.begin()->second.tensor(), exact.begin()->second.tensor()));
  EXPECT_TRUE(test::close_to(got.begin()->second.tensor(), exact.begin()->second.tensor(),
                             test::Tolerance::epsilons(DType::bf16, 16)));
}

TEST(LowerPrecision, MaxPoolsStayRoundedInPlansThatAreMadeLater) {
  const PassContext asked = context(DType::bf16);
  ir::Graph graph = run_pipeline(
      test::parsed("graph { input %x : f32[batch, 8, 6, 6]" + weights("w", {8, 8, 1, 1}) +
                   " %1 = Conv (%x, %w) %2 = MaxPool (%1) {kernel_shape = [2, 2]} %3 = Conv (%2, %w) output %3 }"),
      asked);
  const std::vector<std::string> once = test::ops_of(graph);
  EXPECT_EQ(std::ranges::count(once, "Cast"), 0);
  graph.value(graph.inputs()[0]).type = ir::ValueType::tensor(DType::f32, Shape{2, 8, 6, 6});
  ops::infer_graph(graph);
  EXPECT_EQ(test::ops_of(run_pipeline(std::move(graph), asked)), once);
}

// Two layers of 6 and 5 units on x[steps, batch, features], with what stands behind them.
std::string two_layers(const std::string& op, const std::string& options, const std::string& rest,
                       const std::string& batch = "batch") {
  const std::int64_t gates = op == "LSTM" ? 4 : 3;
  return "graph { input %x : f32[3, " + batch + ", 4]" + weights("w", {1, gates * 6, 4}) +
         weights("r", {1, gates * 6, 6}) + weights("b", {1, gates * 12}) + weights("v", {1, gates * 5, 6}) +
         weights("s", {1, gates * 5, 5}) + weights("m", {5, 7}) + " constant %axis = i64[1] {1} %1 = " + op +
         " (%x, %w, %r, %b) {hidden_size = 6" + options + "} %2 = Squeeze (%1, %axis) %3, %h" +
         (op == "LSTM" ? ", %c" : "") + " = " + op + " (%2, %v, %s) {hidden_size = 5" + options +
         "} %4 = Squeeze (%3, %axis) " + rest + " }";
}

TEST(LowerPrecision, RecurrentLayersBecomeThoseOfBfloat16) {
  const PassContext asked = context(DType::bf16);
  for (const std::string batch : {"batch", "2"}) {
    const auto lowered = [&](const std::string& op, const std::string& options, const std::string& rest) {
      return lower_precision(test::parsed(two_layers(op, options, rest, batch)), asked);
    };
    const std::vector<std::string> stored{"Cast", "LSTM", "Squeeze", "LSTM", "Squeeze", "tessera::Linear"};
    const ir::Graph graph = lowered("LSTM", "", "%5 = MatMul (%4, %m) output %5");
    EXPECT_EQ(test::ops_of(graph), stored);
    for (const ir::NodeId id : graph.order()) {
      const ir::Node& node = graph.node(id);
      if (node.op != "LSTM") continue;
      for (const ir::ValueId input : node.inputs) EXPECT_EQ(graph.value(input).type.dtype, DType::bf16);
      EXPECT_EQ(std::ranges::count_if(node.outputs, &ir::ValueId::valid), 1);  // nobody reads the others
    }
    // What others read is widened, each result by itself.
    EXPECT_EQ(test::ops_of(lowered("LSTM", "", "%5 = Neg (%4) output %5, %c")),
              (std::vector<std::string>{"Cast", "LSTM", "Squeeze", "LSTM", "Cast", "Squeeze", "Neg", "Cast"}));
    const std::string linear = ", linear_before_reset = 1";
    EXPECT_EQ(test::ops_of(lowered("GRU", linear, "output %4, %h")),
              (std::vector<std::string>{"Cast", "GRU", "Squeeze", "GRU", "Cast", "Squeeze", "Cast"}));
    EXPECT_EQ(test::ops_of(lowered("GRU", linear + ", clip = 2.5", "output %4")),
              (std::vector<std::string>{"Cast", "GRU", "Squeeze", "GRU", "Cast", "Squeeze"}));
    // A form that the device has no kernel for stays as it is.
    const std::vector<std::string> as_it_was{"GRU", "Squeeze", "GRU", "Squeeze"};
    EXPECT_EQ(test::ops_of(lowered("GRU", "", "output %4")), as_it_was);
  }
}

TEST(LowerPrecision, RecurrentLayersThatCarrySumsFromRunToRunStayAsTheyAre) {
  const auto lowered = [](const std::string& op, const std::string& states, const std::string& results) {
    const std::int64_t gates = op == "LSTM" ? 4 : 3;
    const std::string text = "graph { input %x : f32[1, 2, 4] input %s : f32[1, 2, 6]" +
                             weights("w", {1, gates * 6, 4}) + weights("r", {1, gates * 6, 6}) +
                             " constant %none = f32[1, 2, 6] {" + "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} %y, %h" +
                             (op == "LSTM" ? ", %c" : "") + " = " + op + " (%x, %w, %r, none, none, " + states +
                             ") {hidden_size = 6" + (op == "GRU" ? ", linear_before_reset = 1" : "") + "} output " +
                             results + " }";
    return test::ops_of(lower_precision(test::parsed(text), context(DType::bf16))) != std::vector<std::string>{op};
  };
  EXPECT_FALSE(lowered("LSTM", "%s, %s", "%y, %c"));
  EXPECT_TRUE(lowered("LSTM", "%s, %none", "%y, %c"));
  EXPECT_TRUE(lowered("LSTM", "%s, %s", "%y, %h"));
  EXPECT_FALSE(lowered("GRU", "%s", "%y, %h"));
  EXPECT_TRUE(lowered("GRU", "%none", "%y, %h"));
  EXPECT_TRUE(lowered("GRU", "%s", "%y"));
}

TEST(LowerPrecision, RecurrentLayersStayBfloat16InPlansThatAreMadeLater) {
  const PassContext asked = context(DType::bf16);
  ir::Graph graph = run_pipeline(test::parsed(two_layers("LSTM", "", "%5 = Neg (%4) output %5")), asked);
  const std::vector<std::string> once = test::ops_of(graph);
  std::map<std::string, const void*> constants;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.value_count()); ++i) {
    if (const Tensor* constant = graph.constant({i}); constant != nullptr)
      constants.emplace(graph.value({i}).name, constant->storage());
  }
  graph.value(graph.inputs()[0]).type = ir::ValueType::tensor(DType::f32, Shape{3, 2, 4});
  ops::infer_graph(graph);
  const ir::Graph again = run_pipeline(std::move(graph), asked);
  EXPECT_EQ(test::ops_of(again), once);
  // Weights are the same tensors, which are packed once for all plans.
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(again.value_count()); ++i) {
    const Tensor* constant = again.constant({i});
    if (constant != nullptr && constant->dtype() == DType::bf16) {
      EXPECT_EQ(constant->storage(), constants.at(again.value({i}).name));
    }
  }
}

// Layers that the model itself has in bfloat16 are widened unless that precision is asked for.
TEST(LowerPrecision, RecurrentLayersOfTheModelsOwn) {
  const ir::Graph net = test::parsed(
      "graph { input %x : bf16[3, 2, 1] constant %w = bf16[1, 4, 1] {1, -1, 0.5, 2} constant %r = bf16[1, 4, 1] {0.5, "
      "1, 1, -1} %1 = LSTM (%x, %w, %r) {hidden_size = 1} output %1 }");
  const auto type_of_layer = [&](DType precision) {
    const ir::Graph widened = compute_float16_in_float32(net, context(precision));
    for (const ir::NodeId id : widened.order()) {
      if (widened.node(id).op == "LSTM") return widened.value(widened.node(id).inputs[0]).type.dtype;
    }
    return DType::undefined;
  };
  EXPECT_EQ(type_of_layer(DType::f32), DType::f32);
  EXPECT_EQ(type_of_layer(DType::bf16), DType::bf16);
}

TEST(LowerPrecision, ResultsOfRecurrentLayers) {
  for (const std::string& net : {two_layers("LSTM", "", "%5 = MatMul (%4, %m) output %5, %h, %c"),
                                 two_layers("GRU", ", linear_before_reset = 1", "output %h"),
                                 two_layers("LSTM", ", direction = \"reverse\"", "%5 = Neg (%4) output %4, %5, %1")}) {
    const Model model(std::make_shared<const ir::Graph>(test::parsed(net)));
    const NamedValues inputs = runtime::random_inputs(model, 1);
    SessionOptions half;
    half.precision = DType::bf16;
    const NamedValues exact = Session(model).run(inputs), got = Session(model, half).run(inputs);
    for (const auto& [name, value] : exact) {
      EXPECT_EQ(got.at(name).tensor().dtype(), DType::f32);
      EXPECT_FALSE(identical(got.at(name).tensor(), value.tensor())) << name;
      EXPECT_TRUE(test::close_to(got.at(name).tensor(), value.tensor(), test::Tolerance::epsilons(DType::bf16, 8)))
          << name;
    }
  }
}

// The acoustic model: its distance from float32, in the norm.
TEST(LowerPrecision, TheWholeOfARecurrentModel) {
  const Model model(
      std::make_shared<const ir::Graph>(models::build_model("lstm", {.dims = {{"batch", 2}, {"time", 30}}})));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions half;
  half.precision = DType::bf16;
  const Tensor exact = Session(model).run(inputs).begin()->second.tensor(),
               got = Session(model, half).run(inputs).begin()->second.tensor();
  double squares = 0, differences = 0;
  for (std::int64_t i = 0; i < exact.elements(); ++i) {
    const double want = exact.data<float>()[i], difference = got.data<float>()[i] - want;
    squares += want * want;
    differences += difference * difference;
  }
  EXPECT_GT(differences, 0);
  EXPECT_LT(std::sqrt(differences / squares), 2e-2);
}

// One matrix as it is and transposed.
TEST(LowerPrecision, WeightsThatTwoLayersReadInTwoWays) {
  const Model model(std::make_shared<const ir::Graph>(
      test::parsed("graph { input %x : f32[4, 300]" + weights("w", {300, 1}) +
                   " %1 = MatMul (%x, %w) %2 = Relu (%1) %3 = Gemm (%2, %w) {transB = 1} output %1, %3 }")));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions half;
  half.precision = DType::bf16;
  const NamedValues exact = Session(model).run(inputs), got = Session(model, half).run(inputs);
  for (const auto& [name, value] : exact)
    EXPECT_TRUE(test::close_to(got.at(name).tensor(), value.tensor(), {.relative = 0.02, .absolute = 0.1})) << name;
}

TEST(LowerPrecision, TakesNodesWhoseFirstOutputNobodyWants) {
  ir::Graph graph = test::parsed("graph { input %x : f32[2, 4] constant %k = i64[1] {2}" + weights("w", {4, 8}) +
                                 " %y = MatMul (%x, %w) output %y }");
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
  const Tensor exact = Session(model).run(inputs).begin()->second.tensor(),
               got = Session(model, half).run(inputs).begin()->second.tensor();
  EXPECT_FALSE(identical(got, exact));
  EXPECT_TRUE(test::close_to(got, exact, test::Tolerance::epsilons(DType::bf16, 16)));
}

TEST(LowerPrecision, OtherPrecisionsAreRefused) {
  const Model model(
      std::make_shared<const ir::Graph>(test::parsed("graph { input %x : f32[2] %y = Relu (%x) output %y }")));
  SessionOptions options;
  options.precision = DType::i8;
  EXPECT_THROW(Session(model, options), Error);
  options.precision = DType::bf16;
  options.device = "reference";  // computes as the model says
  EXPECT_THROW(Session(model, options), Error);
}

}  // namespace
}  // namespace tessera::passes::lower_precision_test
