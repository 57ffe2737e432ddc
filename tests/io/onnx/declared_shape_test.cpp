// Shapes that a file declares for computed values are hearsay: what is computed wins, and one warning says so.
#include <gtest/gtest.h>

#include "io/onnx/model_builder.h"
#include "tessera/log.h"

namespace tessera::test::declared_shape_test {
namespace {

// Collects what is logged while it lives: "W " before a warning, "I " before a detail.
struct Heard {
  Heard() {
    set_log_handler([this](LogLevel level, std::string_view message) {
      lines.push_back((level == LogLevel::warning ? "W " : "I ") + std::string(message));
    });
  }
  ~Heard() { set_log_handler({}); }
  std::vector<std::string> lines;
};

std::string type_of(const ir::Graph& graph, std::string_view name) {
  return to_string(graph.value(graph.find_value(name)).type);
}

void declare_symbols(tessera_onnx::ValueInfoProto& info, const std::string& name,
                     std::initializer_list<std::string> dims) {
  declare(info, name, DType::f32, {});
  for (const std::string& dim : dims) {
    auto& added = *info.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim();
    if (!dim.empty()) added.set_dim_param(dim);
  }
}

TEST(DeclaredShapes, WhatIsComputedWins) {
  ModelBuilder model(21, {2, 3}, {"y", "z"});
  model.node("Relu", {"x"}, {"h"});
  model.node("Sigmoid", {"h"}, {"y"});
  model.node("Neg", {"h"}, {"z"});
  declare(*model.graph().add_value_info(), "h", DType::f32, {5, 3});  // another size
  declare(*model.graph().mutable_output(0), "y", DType::f32, {2});    // another rank
  declare(*model.graph().mutable_output(1), "z", DType::f32, {2, 3});
  Heard heard;
  const ir::Graph graph = model.read();
  EXPECT_EQ(type_of(graph, "h"), "f32[2, 3]");
  EXPECT_EQ(type_of(graph, "y"), "f32[2, 3]");
  EXPECT_EQ(heard.lines,
            (std::vector<std::string>{
                "W a shape that the model declares is false and ignored: value 'h' is declared as f32[5, 3], "
                "but f32[2, 3] is computed; so are shapes of 1 others",
                "I value 'h' is declared as f32[5, 3], but f32[2, 3] is computed",
                "I value 'y' is declared as f32[2], but f32[2, 3] is computed"}));
}

TEST(DeclaredShapes, ANumberForAFreeDimensionIsFalse) {
  ModelBuilder model(21, {}, {"y"});
  declare_symbols(*model.graph().mutable_input(0), "x", {"batch", "width"});
  model.node("Relu", {"x"}, {"y"});
  declare(*model.graph().mutable_output(0), "y", DType::f32, {1, 7});
  Heard heard;
  EXPECT_EQ(type_of(model.read(), "y"), "f32[batch, width]");
  EXPECT_EQ(heard.lines.size(), 2U);
}

TEST(DeclaredShapes, NothingFollowsFromThemWhereNothingIsKnown) {
  ModelBuilder model(21, {4}, {"y"});
  model.node("NonZero", {"x"}, {"y"});
  declare(*model.graph().mutable_output(0), "y", DType::i64, {1, 4});
  Heard heard;
  EXPECT_EQ(type_of(model.read(), "y"), "i64[1, ?]");
  EXPECT_TRUE(heard.lines.empty());  // it may be true
}

// PRelu's slope was one a channel before version 7, so its new form depends on the rank of what it scales.
TEST(DeclaredShapes, OldOperatorsTakeTheDeclaredRankWhereNoneIsKnown) {
  ModelBuilder model(6, {4}, {"y"});
  declare(*model.graph().add_input(), "shape", DType::i64, {});
  model.graph().mutable_input(1)->mutable_type()->mutable_tensor_type()->clear_shape();
  model.node("Reshape", {"x", "shape"}, {"h"});
  model.node("PRelu", {"h", "x"}, {"y"});
  EXPECT_EQ(model.error().substr(0, 12), "unsupported:");
  declare(*model.graph().add_value_info(), "h", DType::f32, {1, 4, 1, 1});
  const ir::Graph graph = model.read();
  EXPECT_EQ(type_of(graph, "h"), "f32[*]");
  EXPECT_EQ(last_node(graph).op, "PRelu");
}

// The graph of a Loop from `start` whose body adds nothing: (i, c, s) -> (c, s).
tessera_onnx::GraphProto& add_loop(ModelBuilder& model, const std::string& start) {
  model.initializer("trips", DType::i64, {}, std::string("\3\0\0\0\0\0\0\0", 8));
  auto& node = model.node("Loop", {"trips", "", start}, {"y"});
  auto& attribute = add_attribute(node, "body");
  attribute.set_type(5);
  auto& body = *attribute.mutable_g();
  declare(*body.add_input(), "i", DType::i64, {});
  declare(*body.add_input(), "c", DType::boolean, {});
  body.add_input()->set_name("s");
  body.add_output()->set_name("c");
  body.add_output()->set_name("s");
  return body;
}

TEST(DeclaredShapes, ABodyTakesTheShapesThatFlowIn) {
  ModelBuilder model(21, {2, 3}, {"y"});
  auto& body = add_loop(model, "x");
  declare(*body.mutable_input(2), "s", DType::f32, {7});
  add_node(*body.mutable_node(), "Relu", {"s"}, {"t"});
  declare(*body.mutable_output(1), "t", DType::f32, {7});
  const ir::Graph graph = model.read();
  EXPECT_EQ(type_of(graph, "y"), "f32[2, 3]");
}

TEST(DeclaredShapes, ABodyWithoutTypesTakesThoseThatFlowIn) {
  ModelBuilder model(21, {2}, {"y"});
  model.node("SequenceEmpty", {}, {"none"});
  auto& body = add_loop(model, "none");
  add_node(*body.mutable_node(), "SequenceInsert", {"s", "x"}, {"t"});
  body.mutable_output(1)->set_name("t");
  const ir::Graph graph = model.read();
  EXPECT_EQ(type_of(graph, "y"), "seq(f32[*])");
  const ir::Graph& read = *std::get<ir::SubgraphPointer>(last_node(graph).attributes.at("body"));
  EXPECT_EQ(type_of(read, "s"), "seq(f32[*])");
}

}  // namespace
}  // namespace tessera::test::declared_shape_test
