#include "passes/training/differentiate.h"

#include <gtest/gtest.h>

#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"
#include "support/random_tensor.h"
#include "tessera/session.h"

namespace tessera::test::differentiate_test {
namespace {

using ir::ValueId;
using Names = std::vector<std::string>;

ir::ValueType f32(ir::Dims dims) {
  return ir::ValueType::tensor(DType::f32, std::move(dims));
}
Tensor vector(std::initializer_list<float> values) {
  return Tensor::from<float>({static_cast<std::int64_t>(values.size())}, values);
}

// A model with inputs a, b [n] and nodes of Gradient; names of values are what Gradient refers to.
class Differentiate : public testing::Test {
 protected:
  Differentiate()
      : builder_(*graph_),
        a_(graph_->add_input("a", f32({ir::Dim::symbol("n")}))),
        b_(graph_->add_input("b", f32({ir::Dim::symbol("n")}))) {}

  ValueId name(ValueId value, const std::string& name) {
    graph_->value(value).name = name;
    return value;
  }

  // Adds Gradient and makes its outputs g0, g1 … outputs of the model.
  void add_gradient(const std::string& y, const Names& xs, const std::vector<ValueId>& inputs, const Names& zs = {}) {
    ir::Attributes attributes{{"y", y}, {"xs", xs}};
    if (!zs.empty()) attributes.emplace("zs", zs);
    for (ValueId output : builder_.add_multi("ai.onnx.preview.training::Gradient", inputs, xs.size(), attributes))
      graph_->add_output(name(output, "g" + std::to_string(graph_->outputs().size())));
  }

  std::vector<float> run(const std::string& output, const Tensor& a, const Tensor& b) {
    Session session{Model(graph_)};
    const NamedValues outputs = session.run({{"a", a}, {"b", b}});
    const std::span<const float> values = outputs.at(output).tensor().values<float>();
    return {values.begin(), values.end()};
  }

  std::shared_ptr<ir::Graph> graph_ = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder_;
  ValueId a_, b_;
};

TEST_F(Differentiate, IsTheGradientOfTheSum) {
  name(builder_.add("Mul", {a_, builder_.add("Add", {a_, b_})}), "y");  // a² + a b
  add_gradient("y", {"a", "b"}, {a_, b_});
  EXPECT_EQ(run("g0", vector({1, 2}), vector({3, 4})), (std::vector<float>{5, 8}));
  EXPECT_EQ(run("g1", vector({1, 2}), vector({3, 4})), (std::vector<float>{1, 2}));
}

TEST_F(Differentiate, TakesIntermediateTensorsAsIndependent) {
  const ValueId h = name(builder_.add("Exp", {a_}), "h");
  name(builder_.add("Mul", {h, builder_.add("Mul", {h, b_})}), "y");
  add_gradient("y", {"h"}, {h}, {});
  add_gradient("y", {"a", "b"}, {a_, b_});
  EXPECT_EQ(run("g0", vector({0}), vector({3})), (std::vector<float>{6}));  // 2 h b
  EXPECT_EQ(run("g1", vector({0}), vector({3})), (std::vector<float>{6}));  // 2 exp(a)² b
  EXPECT_EQ(run("g2", vector({0}), vector({3})), (std::vector<float>{1}));  // h²
}

TEST_F(Differentiate, EvaluatesAtOtherValues) {
  const ValueId h = name(builder_.add("Neg", {a_}), "h");
  name(builder_.add("Mul", {h, b_}), "y");
  add_gradient("y", {"h"}, {a_}, {});         // at h = a: dy/dh = b
  add_gradient("y", {"h", "b"}, {b_, b_});    // one value for both
  add_gradient("y", {"b"}, {a_, b_}, {"h"});  // h given as a constant
  EXPECT_EQ(run("g0", vector({5}), vector({3})), (std::vector<float>{3}));
  EXPECT_EQ(run("g1", vector({5}), vector({3})), (std::vector<float>{3}));
  EXPECT_EQ(run("g2", vector({5}), vector({3})), (std::vector<float>{3}));
  EXPECT_EQ(run("g3", vector({5}), vector({3})), (std::vector<float>{3}));
}

TEST_F(Differentiate, GradientsOfGradients) {
  name(builder_.add("Mul", {a_, builder_.add("Mul", {a_, a_})}), "y");
  add_gradient("g1", {"a"}, {a_});  // before the one that it needs: 6 a
  add_gradient("y", {"a"}, {a_});   // 3 a²
  EXPECT_EQ(run("g0", vector({2, 3}), vector({0, 0})), (std::vector<float>{12, 18}));
  EXPECT_EQ(run("g1", vector({2, 3}), vector({0, 0})), (std::vector<float>{12, 27}));
}

TEST_F(Differentiate, IsZeroWhereNothingDepends) {
  name(builder_.add("Floor", {builder_.add("Exp", {a_})}), "y");
  add_gradient("y", {"a", "b"}, {a_, b_});
  EXPECT_EQ(run("g0", vector({2, 3}), vector({0, 0})), (std::vector<float>{0, 0}));
  EXPECT_EQ(run("g1", vector({2, 3}), vector({0, 0})), (std::vector<float>{0, 0}));
}

TEST_F(Differentiate, UnwantedOutputsAreNotComputed) {
  name(builder_.add("Mul", {a_, b_}), "y");
  const ValueId gradient = graph_->add_value("g1", graph_->value(b_).type);
  graph_->add_node({"ai.onnx.preview.training::Gradient",
                    "",
                    {a_, b_},
                    {ValueId{}, gradient},
                    {{"y", std::string("y")}, {"xs", Names{"a", "b"}}},
                    0});
  graph_->add_output(gradient);
  EXPECT_EQ(run("g1", vector({2}), vector({7})), (std::vector<float>{2}));
}

TEST_F(Differentiate, ListsEverythingThatIsMissing) {
  const ValueId first = builder_.add("Unique", {builder_.add("Exp", {a_})});
  name(builder_.add("Unique", {builder_.add("Neg", {first})}), "y");
  add_gradient("y", {"a"}, {a_});
  expect_error(ErrorKind::unsupported,
               "no gradient is stated for Unique (node 'Unique_3' (Unique)); no gradient is stated for Unique (node "
               "'Unique_1' (Unique))",
               [&] { run("g0", vector({2}), vector({7})); });
}

TEST_F(Differentiate, SaysWhyAGradientIsMissing) {
  name(builder_.add("ScatterElements", {a_, builder_.integers({0, 1}), a_}, {{"reduction", std::string("mul")}}), "y");
  add_gradient("y", {"a"}, {a_});
  expect_error(ErrorKind::unsupported,
               "no gradient is stated for ScatterElements (node 'ScatterElements_1' (ScatterElements): reduction mul)",
               [&] { run("g0", vector({2}), vector({7})); });
}

TEST_F(Differentiate, RefusesUnknownNames) {
  add_gradient("y", {"a"}, {a_});
  expect_error(ErrorKind::invalid_model, "there is no tensor 'y' to differentiate",
               [&] { run("g0", vector({2}), vector({7})); });
}

TEST_F(Differentiate, RefusesGradientsThatNeedOneAnother) {
  add_gradient("g1", {"a"}, {a_});
  add_gradient("g0", {"a"}, {a_});
  expect_error(ErrorKind::invalid_model,
               "Gradient nodes that need one another: node 'ai.onnx.preview.training::Gradient_0' "
               "(ai.onnx.preview.training::Gradient)",
               [&] { run("g0", vector({2}), vector({7})); });
}

TEST_F(Differentiate, ChecksItsLists) {
  expect_error(ErrorKind::invalid_model, "1 inputs for 2 names in xs and zs",
               [&] { add_gradient("y", {"a"}, {a_}, {"b"}); });
}

// Composites are differentiated through what they decompose into.
TEST(DifferentiateComposites, FlexAttention) {
  auto modifier = std::make_shared<ir::Graph>();
  const ValueId scores = modifier->add_input("scores", {});
  modifier->add_output(modifier->add_op("Tanh", {scores}));
  const auto operand = [](Shape shape, std::uint64_t seed) { return random_tensor(DType::f64, shape, seed, -1, 1); };
  expect_gradient({"ai.onnx.preview::FlexAttention",
                   {operand({1, 4, 3, 2}, 1), operand({1, 2, 5, 2}, 2), operand({1, 2, 5, 3}, 3)},
                   {{"score_mod", ir::SubgraphPointer(modifier)}}},
                  {.symbolic = false});
}

TEST(DifferentiateComposites, SkipLayerNormalization) {
  const auto operand = [](Shape shape, std::uint64_t seed) { return random_tensor(DType::f64, shape, seed, -1, 1); };
  expect_gradient({"com.microsoft::SkipLayerNormalization",
                   {operand({2, 3, 4}, 1), operand({2, 3, 4}, 2), operand({4}, 3), operand({4}, 4), operand({4}, 5)}},
                  {.step = 1e-3, .tolerance = 1e-4});
}

TEST(DifferentiateComposites, MultiHeadAttention) {
  const auto operand = [](Shape shape, std::uint64_t seed) { return random_tensor(DType::f64, shape, seed, -1, 1); };
  expect_gradient({"com.microsoft::MultiHeadAttention",
                   {operand({2, 3, 4}, 1), operand({2, 5, 4}, 2), operand({2, 5, 4}, 3)},
                   {{"num_heads", std::int64_t{2}}}},
                  {.step = 1e-3, .tolerance = 1e-4, .symbolic = false});
}

}  // namespace
}  // namespace tessera::test::differentiate_test
