#include <gtest/gtest.h>

#include "ops/core/builder.h"
#include "support/run_op.h"
#include "tessera/error.h"

namespace tessera::test::control_flow_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;

const ValueType kScalar = ValueType::tensor(DType::f32, Dims{});

// A branch that returns a constant of the given shape.
ir::SubgraphPointer constant_branch(const Shape& shape, DType dtype = DType::f32) {
  auto graph = std::make_shared<ir::Graph>();
  const ir::ValueId value = graph->add_constant(Tensor(dtype, shape), "value");
  graph->value(value).type = ValueType::tensor(dtype, shape);
  graph->add_output(value);
  return graph;
}

// (i, condition, x) -> (condition, next x, x)
ir::SubgraphPointer loop_body(bool grows) {
  auto graph = std::make_shared<ir::Graph>();
  graph->add_input("i", ValueType::tensor(DType::i64, Dims{}));
  const ir::ValueId condition = graph->add_input("condition", ValueType::tensor(DType::boolean, Dims{}));
  const ir::ValueId x = graph->add_input("x", {});
  const ir::ValueId next =
      grows ? graph->add_op("Reshape", {x, graph->add_constant(Tensor::from<std::int64_t>({2}, {1, -1}), "shape")})
            : graph->add_op("Relu", {x});
  for (const ir::ValueId output : {condition, next, x}) graph->add_output(output);
  return graph;
}

TEST(If, JoinsBranches) {
  const ir::Attributes branches{{"then_branch", constant_branch({2, 3})}, {"else_branch", constant_branch({2, 5})}};
  const ValueType condition = ValueType::tensor(DType::boolean, Dims{});
  EXPECT_EQ(infer_op("If", {condition}, branches)[0], ValueType::tensor(DType::f32, Dims{2, Dim()}));
  EXPECT_EQ(infer_op("If", {condition}, branches, 1, {Tensor::scalar(false)})[0],
            ValueType::tensor(DType::f32, Dims{2, 5}));
}

TEST(If, RefusesBranchesOfDifferentElementTypes) {
  const ir::Attributes branches{{"then_branch", constant_branch({2})},
                                {"else_branch", constant_branch({2}, DType::i32)}};
  EXPECT_THROW(infer_op("If", {ValueType::tensor(DType::boolean, Dims{})}, branches), Error);
}

TEST(Loop, CarriesTypesAndStacksScanOutputs) {
  const ValueType count = ValueType::tensor(DType::i64, Dims{}),
                  x = ValueType::tensor(DType::f32, Dims{Dim::symbol("n"), 3});
  const ValueType go = ValueType::tensor(DType::boolean, Dims{});
  const auto types = infer_op("Loop", {count, go, x}, {{"body", loop_body(false)}}, 2);
  EXPECT_EQ(types[0], x);
  EXPECT_EQ(types[1], ValueType::tensor(DType::f32, Dims{Dim(), Dim::symbol("n"), 3}));
}

TEST(Loop, ShapesThatChangeBecomeUnknown) {
  const ValueType count = ValueType::tensor(DType::i64, Dims{}), x = ValueType::tensor(DType::f32, Dims{3, 2});
  const ValueType go = ValueType::tensor(DType::boolean, Dims{});
  const auto types = infer_op("Loop", {count, go, x}, {{"body", loop_body(true)}}, 1);
  EXPECT_EQ(types[0], ValueType::tensor(DType::f32, Dims{Dim(), Dim()}));
}

// (state, element) -> (state, element)
ir::SubgraphPointer scan_body() {
  auto graph = std::make_shared<ir::Graph>();
  const ir::ValueId state = graph->add_input("state", {});
  const ir::ValueId element = graph->add_input("element", {});
  graph->add_output(graph->add_op("Relu", {state}));
  graph->add_output(graph->add_op("Relu", {element}));
  return graph;
}

TEST(Scan, MovesTheAxis) {
  const ValueType x = ValueType::tensor(DType::f32, Dims{Dim::symbol("batch"), Dim::symbol("time"), 4});
  const ir::Attributes attributes{{"body", scan_body()},
                                  {"num_scan_inputs", std::int64_t{1}},
                                  {"scan_input_axes", std::vector<std::int64_t>{1}},
                                  {"scan_output_axes", std::vector<std::int64_t>{-1}}};
  const auto types = infer_op("Scan", {kScalar, x}, attributes, 2);
  EXPECT_EQ(types[0], kScalar);
  EXPECT_EQ(types[1], ValueType::tensor(DType::f32, Dims{Dim::symbol("batch"), 4, Dim::symbol("time")}));
}

TEST(Scan, RefusesWrongCounts) {
  ir::Attributes attributes{{"body", scan_body()}, {"num_scan_inputs", std::int64_t{3}}};
  try {
    infer_op("Scan", {kScalar, ValueType::tensor(DType::f32, Dims{4})}, attributes, 2);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "num_scan_inputs is 3, expected 1 to 2");
  }
  attributes["num_scan_inputs"] = std::int64_t{1};
  attributes["scan_input_directions"] = std::vector<std::int64_t>{2};
  try {
    infer_op("Scan", {kScalar, ValueType::tensor(DType::f32, Dims{4})}, attributes, 2);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "attribute 'scan_input_directions' has the entry 2, expected 0 or 1");
  }
}

TEST(SequenceMap, MapsElementTypes) {
  const ValueType x = ValueType::tensor(DType::f32, Dims{2});
  const auto types = infer_op("SequenceMap", {ValueType::sequence(x), kScalar}, {{"body", scan_body()}}, 2);
  EXPECT_EQ(types[0], ValueType::sequence(x));
  EXPECT_EQ(types[1], ValueType::sequence(kScalar));
}

}  // namespace
}  // namespace tessera::test::control_flow_test
