// Passes over small graphs: what they change, what they leave, and that outputs stay the same.
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include "backends/reference/reference_device.h"
#include "ops/core/builder.h"
#include "ops/core/infer.h"
#include "runtime/run/evaluate.h"
#include "support/expect_error.h"
#include "support/pass_context.h"

namespace tessera::passes::pipeline_test {
namespace {

PassContext context() {
  PassContext result;
  result.evaluate = [](const ir::Node& node, std::span<const Value> inputs) {
    return runtime::evaluate_node(backends::reference_device(), node, inputs, {});
  };
  return result;
}

ir::ValueType f32(ir::Dims dims) {
  return ir::ValueType::tensor(DType::f32, std::move(dims));
}

std::vector<std::string> ops_of(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (ir::NodeId id : graph.order()) names.push_back(graph.node(id).op);
  return names;
}

using Names = std::vector<std::string>;

TEST(FoldConstants, ComputesShapeArithmetic) {
  // Reshape(x, Concat(Shape(x)[0:1], [-1])) with a known batch.
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", f32({2, 3, 4}));
  const ir::ValueId batch = builder.add("Shape", {x}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
  const ir::ValueId shape = builder.add("Concat", {batch, builder.integers({-1})}, {{"axis", std::int64_t{0}}});
  graph.add_output(builder.add("Reshape", {x, shape}));
  const ir::Graph folded = fold_constants(std::move(graph), context());
  EXPECT_EQ(ops_of(folded), (Names{"Reshape"}));
  EXPECT_EQ(folded.value(folded.outputs()[0]).type, f32({2, 12}));
}

TEST(FoldConstants, LeavesWhatWouldBeTooLarge) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  graph.add_output(builder.add("ConstantOfShape", {builder.integers({1024, 1024, 1024})}));
  EXPECT_EQ(ops_of(fold_constants(std::move(graph), context())), (Names{"ConstantOfShape"}));
}

TEST(FoldConstants, LeavesWhatFails) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  graph.add_output(builder.add("Div", {builder.integers({1}), builder.integers({0})}));
  EXPECT_EQ(ops_of(fold_constants(std::move(graph), context())), (Names{"Div"}));
}

TEST(RemoveNoOps, KeepsGraphOutputsAndTheirNames) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", f32({2}));
  const ir::ValueId inner = builder.add("Identity", {builder.add("Relu", {builder.add("Identity", {x})})});
  graph.add_output(builder.add("Identity", {builder.add("Sigmoid", {inner})}));
  const std::string name = graph.value(graph.outputs()[0]).name;
  const ir::Graph cleaned = remove_no_ops(std::move(graph), context());
  EXPECT_EQ(ops_of(cleaned), (Names{"Relu", "Sigmoid"}));
  EXPECT_EQ(cleaned.value(cleaned.outputs()[0]).name, name);
}

TEST(RemoveNoOps, ResultsThatAreTheSameOrGivenStayResults) {
  test::expect_rewritten(
      "graph { input %x : f32[2] %a = Relu (%x) %b = Identity (%a) %y = Identity (%b) %z = Identity (%a) %w = Identity "
      "(%x) %n = Neg (%a) output %y, %z, %w, %n }",
      "remove_no_ops", {"%y = Relu (%x)", "%z = Identity (%y)", "%w = Identity (%x)", "%n = Neg (%y)"});
  test::expect_left_alone("graph { input %x : f32[2] %a = Relu (%x) %y = Identity (%a) output %a, %y }",
                          "remove_no_ops");
}

TEST(RemoveNoOps, SlicesOfEverything) {
  const std::string start =
      "graph { input %x : f32[n, 4] constant %0 = i64[1] {0} constant %1 = i64[1] {1} constant %4 = i64[1] {4} "
      "constant %end = i64[1] {9223372036854775807} constant %back = i64[1] {-1} ";
  test::expect_rewritten(start + "%a = Slice (%x, %0, %end, %0) %b = Slice (%a, %0, %4, %1) %y = Exp (%b) output %y }",
                         "remove_no_ops", {"%y = Exp (%x)"});
  test::expect_left_alone(start +
                              "%a = Slice (%x, %0, %4, %0) %b = Slice (%a, %1, %end, %1) %c = Slice (%b, %0, %end, %1, "
                              "%4) %y = Exp (%c) output %y }",
                          "remove_no_ops");
  test::expect_left_alone(
      "graph { input %x : f32[4] constant %s = i64[1] {-1} constant %e = i64[1] {-9} constant %0 = i64[1] {0} %a = "
      "Slice (%x, %s, %e, %0, %s) %y = Exp (%a) output %y }",
      "remove_no_ops");
}

TEST(RemoveNoOps, PadsByNothingAndTilesOfOne) {
  const std::string start =
      "graph { input %x : f32[n, 4] constant %none = i64[4] {0, 0, 0, 0} constant %some = i64[4] {0, 0, 0, 1} constant "
      "%once = i64[2] {1, 1} constant %twice = i64[2] {1, 2} ";
  test::expect_rewritten(start + "%a = Pad (%x, %none) %b = Tile (%a, %once) %y = Exp (%b) output %y }",
                         "remove_no_ops", {"%y = Exp (%x)"});
  test::expect_left_alone(start + "%a = Pad (%x, %some) %b = Tile (%a, %twice) %y = Exp (%b) output %y }",
                          "remove_no_ops");
}

TEST(RemoveNoOps, KeepsATransposeThatMoves) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", f32({2, 2}));
  const ir::ValueId same = builder.add("Transpose", {x}, {{"perm", std::vector<std::int64_t>{0, 1}}});
  const ir::ValueId moved = builder.add("Transpose", {same}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  graph.add_output(builder.add("Relu", {moved}));
  EXPECT_EQ(ops_of(remove_no_ops(std::move(graph), context())), (Names{"Transpose", "Relu"}));
}

// If(condition, then: captured + one, else: captured), with `one` a captured constant.
ir::Graph branching(bool known_condition) {
  auto branch = [](bool adds) {
    auto body = std::make_shared<ir::Graph>();
    ops::GraphBuilder builder(*body);
    const ir::ValueId x = body->add_input("x", f32({2})), one = body->add_input("one", f32({}));
    body->add_output(adds ? builder.add("Add", {x, one}) : x);
    return ir::SubgraphPointer(body);
  };
  ir::Graph graph;
  const ir::ValueType boolean = ir::ValueType::tensor(DType::boolean, ir::Dims{});
  const ir::ValueId condition =
      known_condition ? graph.add_constant(Tensor::scalar(true)) : graph.add_input("condition", boolean);
  const ir::ValueId x = graph.add_input("x", f32({2})), one = graph.add_constant(Tensor::scalar(1.0f));
  const ir::ValueId y = graph.add_value("y", f32({2}));
  graph.add_node(
      {"If", "choose", {condition, x, one}, {y}, {{"then_branch", branch(true)}, {"else_branch", branch(false)}}, 2});
  graph.add_output(y);
  return graph;
}

TEST(SinkConstants, MovesCapturedConstantsInside) {
  const ir::Graph sunk = sink_constants(branching(false), context());
  const ir::Node& node = sunk.node(sunk.order()[0]);
  EXPECT_EQ(node.captures, 1);
  EXPECT_EQ(node.inputs.size(), 2u);
  for (const auto& [name, body] : ir::subgraphs_of(node)) EXPECT_EQ(body->inputs().size(), 1u) << name;
}

TEST(InlineConstantBranches, KeepsOnlyTheBranchTaken) {
  const ir::Graph inlined = run_pipeline(branching(true), context());
  EXPECT_EQ(ops_of(inlined), (Names{"Add"}));
  EXPECT_EQ(inlined.value(inlined.outputs()[0]).name, "y");
}

TEST(InlineConstantBranches, LeavesAnUnknownCondition) {
  EXPECT_EQ(ops_of(run_pipeline(branching(false), context())), (Names{"If"}));
}

// means = MultiHeadAttention of a reshaped x with itself; the new shape [1, elements of x, 1] is computed.
ir::Graph attention_of_reshaped(ir::Dims dims) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", f32(std::move(dims)));
  const ir::ValueId count = builder.add("Unsqueeze", {builder.add("Size", {x}), builder.integers({0})});
  const ir::ValueId shape =
      builder.add("Concat", {builder.integers({1}), count, builder.integers({1})}, {{"axis", std::int64_t{0}}});
  const ir::ValueId rows = builder.add("Reshape", {x, shape});
  graph.add_output(
      builder.add("com.microsoft::MultiHeadAttention", {rows, rows, rows}, {{"num_heads", std::int64_t{1}}}));
  return graph;
}

TEST(DecomposeComposites, SeesShapesThatFoldingFinds) {
  EXPECT_EQ(ops_of(run_pipeline(attention_of_reshaped({2, 3}), context())), (Names{"Reshape", "Attention"}));
}

TEST(DecomposeComposites, WaitsForShapes) {
  const Names names = ops_of(run_pipeline(attention_of_reshaped({2, ir::Dim()}), context()));
  EXPECT_EQ(names.back(), "com.microsoft::MultiHeadAttention");
}

TEST(DecomposeComposites, LeavesWhatTheDeviceRunsItself) {
  PassContext with_kernel = context();
  with_kernel.keeps_composite = [](const ir::Graph&, const ir::Node& node) {
    return node.op == "com.microsoft::MultiHeadAttention";
  };
  EXPECT_EQ(ops_of(run_pipeline(attention_of_reshaped({2, 3}), with_kernel)),
            (Names{"Reshape", "com.microsoft::MultiHeadAttention"}));
}

TEST(DecomposeComposites, NamesTheNodeThatItCannotDecompose) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_input("x", f32({2, 3, 4})), y = graph.add_value("y");
  const ir::ValueId mask = graph.add_input("mask", ir::ValueType::tensor(DType::i32, ir::Dims{7}));
  graph.add_node(
      {"com.microsoft::MultiHeadAttention", "looks", {x, x, x, {}, mask}, {y}, {{"num_heads", std::int64_t{1}}}, 0});
  graph.add_output(y);
  test::expect_error_containing(
      ErrorKind::invalid_model,
      "the mask has shape [7], which does not fit a batch of 2, 3 queries and 3 keys (in node 'looks'",
      [&] { decompose_composites(std::move(graph), context()); });
}

TEST(Pipeline, SwitchesPassesOffByName) {
  EXPECT_EQ(ops_of(run_pipeline(branching(true), context(), {.without = {"inline_constant_branches"}})), (Names{"If"}));
  test::expect_error(ErrorKind::invalid_argument, "there is no pass 'tidy'",
                     [] { run_pipeline({}, context(), {.without = {"tidy"}}); });
}

// Files may hold nodes that give nothing, and operators of which a later output is wanted and not the first.
TEST(Pipeline, EachPassAloneTakesNodesWithoutOutputs) {
  for (const Pass& alone : all_passes()) {
    SCOPED_TRACE(alone.name);
    ir::Graph graph;
    const ir::ValueId x = graph.add_input("x", f32({2, 3})),
                      s = graph.add_constant(Tensor::from<std::int64_t>({2}, {1, 1}));
    const ir::ValueId scale = graph.add_constant(Tensor::from<float>({3}, {1, 2, 3})),
                      sum = graph.add_op("Add", {x, x});
    for (const char* op :
         {"Add", "Mul", "Div", "Sub", "Neg", "Log", "Softmax", "Transpose", "Identity", "Expand", "Tile", "Cast"}) {
      const bool two = std::string_view("Add Mul Div Sub").find(op) != std::string_view::npos,
                 with_shape = std::string_view("Expand Tile").find(op) != std::string_view::npos;
      const std::vector<ir::ValueId> inputs = two ? std::vector{x, x} : with_shape ? std::vector{x, s} : std::vector{x};
      const ir::Attributes attributes =
          std::string_view(op) == "Cast" ? ir::Attributes{{"to", std::int64_t{1}}} : ir::Attributes{};
      graph.add_node({op, "", inputs, {}, attributes, 0});
      graph.add_node({op, "", inputs, {ir::ValueId{}}, attributes, 0});
    }
    const ir::ValueId mean = graph.add_value("mean");
    graph.add_node({"LayerNormalization", "", {sum, scale}, {ir::ValueId{}, mean}, {}, 0});
    graph.add_output(mean);
    ops::infer_graph(graph);
    PipelineOptions options;
    std::vector<PassChange> changes;
    for (const Pass& pass : all_passes()) {
      if (pass.name != alone.name) options.without.emplace_back(pass.name);
    }
    EXPECT_EQ(ops_of(run_pipeline(graph, test::cpu_pass_context(), options, &changes)),
              (Names{"Add", "LayerNormalization"}));
  }
}

TEST(Pipeline, ReportsEveryPass) {
  std::vector<PassChange> reports;
  run_pipeline(branching(true), context(), {}, &reports);
  ASSERT_EQ(reports.size(), all_passes().size());
  EXPECT_EQ(reports[0].pass, all_passes()[0].name);
  double seconds = 0;
  for (const PassChange& report : reports) seconds += report.seconds;
  EXPECT_GT(seconds, 0);
}

// Graphs in which a pass has something for fold_constants to finish.
TEST(Pipeline, FoldsNothingWithoutFoldConstants) {
  const std::string filter = " constant %w = f32[2, 2, 1, 1] {1, 2, -3, 0.5}";
  const std::string texts[] = {
      // channels_last: a constant with its channels last
      "graph { input %x : f32[1, 2, 2, 2] constant %c = f32[1, 2, 2, 1] {1, 2, 3, 4}" + filter +
          " %a = Conv (%x, %w) %y = Max (%a, %c) %z = Conv (%y, %w) output %z }",
      // compute_float16_in_float32: weights of f32
      "graph { input %x : f16[2, 2] constant %w = f16[2, 2] {1, 2, 3, 4} %y = MatMul (%x, %w) output %y }",
      // fold_into_tables: a table
      "graph { input %k : i64[batch, 5] constant %w = f32[3, 2] {1, 2, 3, 4, 5, -6} %r = Gather (%w, %k)"
      " %y = Relu (%r) output %y }",
      // move_crops: columns of weights
      "graph { input %x : f32[4, 2] constant %w = f32[2, 4] {1, 2, 3, 4, 5, 6, 7, 8} constant %s = i64[1] {0}"
      " constant %e = i64[1] {2} constant %a = i64[1] {1} %p = MatMul (%x, %w) %o = Slice (%p, %s, %e, %a) output %o }",
      // decompose_composites
      "graph { input %x : f32[2, 3] constant %axes = i64[1] {1} %y = MeanVarianceNormalization (%x) {axes = [1]}"
      " output %y }",
      // lower_quantised: transposed weights
      "graph { input %x : f32[2, 2] constant %s = f32[] {0.5} constant %z = u8[] {3} constant %b = i8[2, 2] {1, 2, 3, "
      "4} %q = QuantizeLinear (%x, %s, %z) %r = DequantizeLinear (%q, %s, %z) %w = DequantizeLinear (%b, %s)"
      " %y = Gemm (%r, %w) {transB = 1} output %y }"};
  int folded = 0;
  for (const std::string& text : texts) {
    SCOPED_TRACE(text);
    int evaluations = 0;
    PassContext counting = test::cpu_pass_context();
    counting.evaluate = [&, evaluate = counting.evaluate](const ir::Node& node, std::span<const Value> inputs) {
      ++evaluations;
      return evaluate(node, inputs);
    };
    PipelineOptions without;
    without.without = {"fold_constants"};
    run_pipeline(test::parsed(text), counting, without);
    EXPECT_EQ(evaluations, 0);
    run_pipeline(test::parsed(text), counting);
    folded += evaluations > 0 ? 1 : 0;
  }
  EXPECT_GE(folded, 4);  // what is deferred (a widened weight, say) asks nobody
}

}  // namespace
}  // namespace tessera::passes::pipeline_test
