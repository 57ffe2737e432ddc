#include "report/inspect/model_outline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "io/onnx/writer.h"
#include "report/inspect/model_info.h"
#include "report/inspect/tensor_statistics.h"
#include "support/expect_error.h"
#include "support/pass_context.h"
#include "support/temporary_folder.h"

namespace tessera::report::model_outline_test {
namespace {

using testing::HasSubstr;

constexpr const char* kModel =
    "graph \"net\" { input %x : f32[n, 3] input %c : bool[] constant %w = f32[3, 2] {1, 2, 3, 4, 0, 0}"
    " %h = MatMul \"product\" (%x, %w) %y = LeakyRelu \"act\" (%h) {alpha = 0.5}"
    " %o = If \"choice\" (%c) captures (%y) {else_branch = graph \"no\" { input %t : f32[n, 2] %r = Neg \"minus\" (%t) "
    "output %r },"
    " then_branch = graph \"yes\" { input %t : f32[n, 2] %r = Exp \"power\" (%t) output %r }} output %o }";

class ModelOutlineTest : public testing::Test {
 protected:
  ModelOutlineTest() { io::write_model(test::parsed(kModel), folder / "model.onnx"); }
  ModelOutline outline() const {
    const Model model = Model::load(folder / "model.onnx");
    return {io::read_outline(folder / "model.onnx"), model.graph()};
  }
  const test::TemporaryFolder folder;
};

TEST_F(ModelOutlineTest, ListsNodesWithWhatTheyReadAndGive) {
  const std::string text = nodes_text(outline());
  EXPECT_THAT(text, HasSubstr("   #1 MatMul  'product'\n        in   x: f32[n, 3], w: f32[3, 2] = [1, 2, 3, 4, 0, 0]\n "
                              "       out  h: f32[n, 2]\n"));
  EXPECT_THAT(text, HasSubstr("   #2 LeakyRelu  'act'\n        alpha=0.5\n        in   h: f32[n, 2]\n"));
  EXPECT_THAT(text, HasSubstr("else_branch=graph 'no' of 1 nodes"));
  EXPECT_THAT(
      text,
      HasSubstr("  else_branch of #3 If 'choice': graph 'no'\n     #4 Neg  'minus'\n          in   y: f32[n, 2]\n"));
}

TEST_F(ModelOutlineTest, LongListsBreakIntoLines) {
  std::string inputs, names;
  for (int i = 0; i < 30; ++i) {
    inputs += fmt::format(" input %a_rather_long_name_{} : f32[10, 20]", i);
    names += fmt::format("{}%a_rather_long_name_{}", i > 0 ? ", " : "", i);
  }
  io::write_model(test::parsed("graph {" + inputs + " %y = Concat \"all\" (" + names + ") {axis = 0} output %y }"),
                  folder / "model.onnx");
  const std::string text = nodes_text(outline());
  EXPECT_THAT(text, HasSubstr("a_rather_long_name_29: f32[10, 20]\n"));
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
    EXPECT_LE(text.find('\n', begin) - begin, 120u);
}

TEST_F(ModelOutlineTest, ShowsANodeInFull) {
  const ModelOutline model = outline();
  EXPECT_EQ(node_text(model, "product"),
            "#1 MatMul 'product'\n"
            "  input      x: f32[n, 3]  from input\n"
            "  input      w: f32[3, 2] = [1, 2, 3, 4, 0, 0]\n"
            "  output     h: f32[n, 2]\n"
            "             to #2 LeakyRelu 'act'\n");
  EXPECT_EQ(node_text(model, "h"), node_text(model, "product"));  // by an output
  EXPECT_EQ(node_text(model, "#1"), node_text(model, "product"));
  // What a subgraph reads of the graph around it is used there.
  EXPECT_THAT(node_text(model, "act"), HasSubstr("             to #4 Neg 'minus', #5 Exp 'power'\n"));
  EXPECT_THAT(node_text(model, "minus"), HasSubstr("  in else_branch of #3 If 'choice': graph 'no'\n"));
  EXPECT_THAT(node_text(model, "minus"), HasSubstr("y: f32[n, 2]  from #2 LeakyRelu 'act'\n"));
  EXPECT_THAT(node_text(model, "choice"), HasSubstr("             to output\n"));
}

TEST_F(ModelOutlineTest, NamesWhatComesNearest) {
  const ModelOutline model = outline();
  test::expect_error(ErrorKind::not_found, "no node has the name or an output 'prodct'; the nearest: 'product'",
                     [&] { node_text(model, "prodct"); });
  test::expect_error(ErrorKind::not_found, "no node has the name or an output 'PROD'; the nearest: 'product'",
                     [&] { node_text(model, "PROD"); });
  test::expect_error(ErrorKind::not_found, "no node has the name or an output 'something else'; --nodes lists them all",
                     [&] { node_text(model, "something else"); });
  ir::Graph graph = test::parsed("graph { input %x : f32[1] %y = Relu \"/model/layer.7/Relu\" (%x) output %y }");
  io::write_model(graph, folder / "model.onnx");
  test::expect_error(ErrorKind::not_found,
                     "no node has the name or an output 'layer.8/Relu'; the nearest: '/model/layer.7/Relu'",
                     [&] { node_text(outline(), "layer.8/Relu"); });
  test::expect_error_containing(ErrorKind::not_found, "'#6'", [&] { node_text(model, "#6"); });
  EXPECT_THROW(node_text(model, std::string(10'000'000, 'x')), Error);  // not compared letter by letter
}

TEST_F(ModelOutlineTest, WeightsComeWithStatistics) {
  EXPECT_THAT(
      weights_text(outline()),
      HasSubstr("f32[3, 2]                          24 B          0          4      1.667      1.491  33.3%  w\n"));
  const float infinity = std::numeric_limits<float>::infinity();
  const TensorStatistics some = statistics_of(Tensor::from<float>({4}, {infinity, -1, 3, std::nanf("")}));
  EXPECT_EQ(some.not_finite, 2);
  EXPECT_EQ(some.mean, 1);
  EXPECT_EQ(some.deviation, 2);
  EXPECT_FALSE(statistics_of(Tensor::from<std::string>({1}, {"a"})).known);
  EXPECT_FALSE(statistics_of(Tensor(DType::f32, {0, 3})).known);
  // A small deviation around a large mean, and more elements than a block.
  Tensor many(DType::f64, {200'000});
  for (std::int64_t i = 0; i < many.elements(); ++i) many.mutable_data<double>()[i] = 1e9 + static_cast<double>(i % 2);
  EXPECT_NEAR(statistics_of(many).deviation, 0.5, 1e-9);
  EXPECT_NEAR(statistics_of(many).mean, 1e9 + 0.5, 1e-6);
}

TEST_F(ModelOutlineTest, JsonHasAllOfIt) {
  const Model model = Model::load(folder / "model.onnx");
  const ModelOutline whole = outline();
  const nlohmann::json json = nlohmann::json::parse(model_info_json(model, describe_model(model), "m", &whole));
  EXPECT_EQ(json["nodes"], 5);  // as it was before there was a graph beside it
  EXPECT_EQ(json["metadata"]["producer_name"], "tessera");
  EXPECT_EQ(json["metadata"]["graph_name"], "net");
  EXPECT_EQ(json["metadata"]["opsets"]["ai.onnx"], model.metadata().opsets.at("ai.onnx"));
  const nlohmann::json& nodes = json["graph"]["nodes"];
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0]["inputs"][1], (nlohmann::json{{"name", "w"}, {"type", "f32[3, 2]"}, {"constant", true}}));
  EXPECT_EQ(nodes[1]["attributes"]["alpha"], 0.5);
  EXPECT_EQ(nodes[2]["attributes"]["else_branch"]["graph"]["nodes"][0]["op"], "Neg");
  const nlohmann::json& weight = json["graph"]["weights"][0];
  EXPECT_EQ(weight["values"], (nlohmann::json{1.0, 2.0, 3.0, 4.0, 0.0, 0.0}));
  EXPECT_EQ(weight["statistics"]["max"], 4.0);
  const nlohmann::json node = node_json(whole, "act");
  EXPECT_EQ(node[0]["outputs"][0]["users"], (nlohmann::json{"#4 Neg 'minus'", "#5 Exp 'power'"}));
  EXPECT_EQ(node[0]["inputs"][0]["producer"], "#1 MatMul 'product'");
}

TEST_F(ModelOutlineTest, LargeConstantsAreSummarised) {
  ir::Graph graph = test::parsed("graph { input %x : f32[2000] output %x }");
  Tensor large(DType::f32, {2000});
  std::fill_n(large.mutable_data<float>(), 2000, 1.5f);
  const ir::ValueId constant = graph.add_constant(large, "large"),
                    sum = graph.add_value("sum", ir::ValueType::tensor(DType::f32, Shape{2000}));
  graph.add_node({"Add", "add", {graph.inputs()[0], constant}, {sum}, {}, 0});
  graph.set_outputs({sum});
  io::write_model(graph, folder / "model.onnx");
  const ModelOutline model = outline();
  EXPECT_THAT(node_text(model, "add"),
              HasSubstr("large: f32[2000] constant\n             min 1.5, max 1.5, mean 1.5, std 0, 0.0% zeros\n"));
  EXPECT_FALSE(outline_json(model)["weights"][0].contains("values"));
  EXPECT_EQ(outline_json(model)["weights"][0]["statistics"]["mean"], 1.5);
}

}  // namespace
}  // namespace tessera::report::model_outline_test
