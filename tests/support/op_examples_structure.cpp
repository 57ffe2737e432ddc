// Control flow, sequences and optionals.
#include <memory>

#include "ops/core/builder.h"
#include "support/op_examples.h"

namespace tessera::test {
namespace {

ir::ValueType pair_of(DType type) {
  return ir::ValueType::tensor(type, Shape{2});
}

ir::Attributes branches(DType type) {
  const auto branch = [type](double value) {
    auto graph = std::make_shared<ir::Graph>();
    graph->add_output(graph->add_constant(make_value(at({2}, {value}), type).tensor()));
    return ir::SubgraphPointer(graph);
  };
  return {{"then_branch", branch(1)}, {"else_branch", branch(2)}};
}

// Carries and shows the state.
ir::Attributes loop_body(DType type) {
  auto graph = std::make_shared<ir::Graph>();
  graph->add_input("i", ir::ValueType::tensor(DType::i64, Shape{}));
  const ir::ValueId condition = graph->add_input("condition", ir::ValueType::tensor(DType::boolean, Shape{}));
  const ir::ValueId state = graph->add_input("state", pair_of(type));
  graph->set_outputs({condition, state, state});
  return {{"body", ir::SubgraphPointer(graph)}};
}

// Element and state change places.
ir::Attributes scan_body(DType type) {
  auto graph = std::make_shared<ir::Graph>();
  const ir::ValueId state = graph->add_input("state", pair_of(type)),
                    element = graph->add_input("element", pair_of(type));
  graph->set_outputs({element, state});
  return {{"body", ir::SubgraphPointer(graph)}, {"num_scan_inputs", whole(1)}};
}

ir::Attributes joining_body(DType type) {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId element = graph->add_input("element", pair_of(type)),
                    other = graph->add_input("other", pair_of(type));
  graph->add_output(builder.add("Concat", {element, other}, {{"axis", whole(0)}}));
  return {{"body", ir::SubgraphPointer(graph)}};
}

ir::Attributes empty_of(DType type) {
  return {{"dtype", code_of(type)}};
}

}  // namespace

std::vector<OpExample> structure_examples() {
  const ExampleOperand list = sequence({at({2}), at({2}, {3, 1})});
  return {
      {.op = "If", .operands = {as(DType::boolean, number(1))}, .attributes_follow = "outputs", .follow = branches},
      {.op = "Loop",
       .operands = {number(3), number(1), at({2})},
       .outputs = 2,
       .attributes_follow = "v_initial",
       .follow = loop_body},
      {.op = "Scan",
       .operands = {at({2}), at({3, 2})},
       .outputs = 2,
       .attributes_follow = "initial_state_and_scan_inputs",
       .follow = scan_body},
      {.op = "SequenceMap",
       .operands = {list, at({2})},
       .together = {"input_sequence", "additional_inputs"},
       .attributes_follow = "input_sequence",
       .follow = joining_body},
      {"SequenceConstruct", {at({2}), at({2}, {3, 1})}},
      {.op = "SequenceEmpty", .attributes_follow = "output", .follow = empty_of},
      {.op = "SequenceInsert", .operands = {list, at({2}), number(1)}, .together = {"input_sequence", "tensor"}},
      {"SequenceErase", {list, number(0)}},
      {"SequenceAt", {list, number(1)}},
      {"SequenceLength", {list}},
      {"SplitToSequence", {at({3, 2}), number(2)}},
      {"SplitToSequence", {at({3, 2})}, {{"keepdims", whole(0)}}},
      {"ConcatFromSequence", {list}, {{"axis", whole(0)}}},
      {"Identity", {list}},
      {"tessera::After", {at({2, 3}), at({1})}},
      {"tessera::Unmask", {at({2, 3}), at({1})}, {{"key", whole_list({1, 2, 3, 4, 5, 6, 7, 8})}}},
      {"Optional", {at({2})}},
      {"Optional", {list}},
      {"OptionalHasElement", {at({2})}},
      {"OptionalGetElement", {at({2})}},
      {"OptionalGetElement", {list}},
  };
}

}  // namespace tessera::test
