// The table of activations, and which nodes are one.
#include "ops/element_wise/fused_activation.h"

#include <gtest/gtest.h>

#include "ops/element_wise/element_wise_program.h"
#include "ops/op_table.h"
#include "support/expect_error.h"
#include "support/pass_context.h"

namespace tessera::ops::fused_activation_test {
namespace {

std::optional<FusedActivation> of_last(const std::string& text) {
  const ir::Graph graph = test::parsed(text);
  return fused_activation_of(graph, graph.node(graph.order().back()));
}

void expect_activation(const std::string& text, std::string_view name, const std::vector<float>& values) {
  SCOPED_TRACE(text);
  const std::optional<FusedActivation> found = of_last(text);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->name, name);
  EXPECT_EQ(found->values, values);
}

TEST(FusedActivation, OperatorsOfTheNameHaveTheirParametersAndCosts) {
  for (const ActivationForm& form : activation_forms()) {
    SCOPED_TRACE(form.name);
    if (form.spelling != ActivationForm::Spelling::operator_of_the_name) continue;
    const OpDef* op = find_op(form.name);
    ASSERT_NE(op, nullptr);
    EXPECT_EQ(op->element_wise, ElementWise::unary);
    EXPECT_EQ(op->attributes.size(), form.parameters.size());
    const ir::Node node{std::string(form.name), "", {}, {}, {}, 0};
    const TensorType one{DType::f32, {1}};
    EXPECT_EQ(op->operations(NodeView(node, *op, {&one, 1}, {&one, 1}, {})), form.operations);
    for (const std::string_view parameter : form.parameters)
      EXPECT_NO_THROW(AttributeReader(node, *op).real(parameter)) << parameter;
  }
}

TEST(FusedActivation, ProgramsHoldThoseThatOperatorsCompute) {
  for (const ActivationForm& form : activation_forms()) {
    const ElementWiseForm* step = find_element_wise_form(form.name);
    if (form.spelling == ActivationForm::Spelling::none) {
      EXPECT_EQ(step, nullptr) << form.name;
      continue;
    }
    ASSERT_NE(step, nullptr) << form.name;
    EXPECT_EQ(step->kind, ElementWiseKind::activation);
    EXPECT_EQ(step->parameters, static_cast<int>(form.parameters.size()));
  }
}

TEST(FusedActivation, IsReadFromTheNode) {
  const std::string x = "graph { input %x : f32[2, 3] ";
  expect_activation(x + "%y = Elu (%x) {alpha = 0.5} output %y }", "Elu", {0.5f});
  expect_activation(x + "%y = LeakyRelu (%x) output %y }", "LeakyRelu", {0.01f});
  expect_activation(x + "%y = Gelu (%x) {approximate = \"tanh\"} output %y }", "GeluTanh", {});
  expect_activation(x + "constant %h = f32[] {6} %y = Clip (%x, none, %h) output %y }", "Clip",
                    {-std::numeric_limits<float>::infinity(), 6});
  expect_activation(x + "constant %s = f32[3] {0.5, 0.5, 0.5} %y = PRelu (%x, %s) output %y }", "LeakyRelu", {0.5f});
}

TEST(FusedActivation, IsNoneWhereAParameterIsNotKnown) {
  const std::string x = "graph { input %x : f32[2, 3] ";
  EXPECT_FALSE(of_last(x + "input %h : f32[] %y = Clip (%x, none, %h) output %y }"));
  EXPECT_FALSE(of_last(x + "constant %s = f32[3] {0.5, 0.5, 0.25} %y = PRelu (%x, %s) output %y }"));
  EXPECT_FALSE(of_last(x + "%y = Exp (%x) output %y }"));
}

TEST(FusedActivation, RefusesUnknownNames) {
  test::expect_error(ErrorKind::invalid_model, "activation 'Fly' is not known", [] { activation_parameters("Fly"); });
}

}  // namespace
}  // namespace tessera::ops::fused_activation_test
