#include "ops/core/control_flow.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/infer.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

using Kind = ir::ValueType::Kind;

// Like ir::join; an optional and its element join to the optional.
ir::ValueType join_values(const ir::ValueType& a, const ir::ValueType& b) {
  if (a.kind == b.kind || (a.kind != Kind::optional && b.kind != Kind::optional)) return ir::join(a, b);
  const ir::ValueType& inside = a.kind == Kind::optional ? *a.element : *b.element;
  return ir::ValueType::optional(join_values(inside, a.kind == Kind::optional ? b : a));
}

void set_outputs(InferContext& context, const std::vector<ir::ValueType>& types, std::string_view source) {
  context.check(context.output_count() <= types.size(), "{} outputs are asked for, but {} gives {}",
                context.output_count(), source, types.size());
  for (std::size_t i = 0; i < types.size(); ++i) context.set_output(i, types[i]);
}

// The types of a branch's outputs, or nothing (and why) when it breaks an operator's rules for these captured types.
std::optional<std::vector<ir::ValueType>> infer_possible_branch(const InferContext& context, std::string_view branch,
                                                                std::string& fault) {
  try {
    return context.infer_subgraph(branch, {});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_model) throw;
    fault = error.what();
    return std::nullopt;
  }
}

void infer_if(InferContext& context) {
  const ir::Dims* condition = context.dims(0);
  context.check(condition == nullptr || ir::product(*condition).may_equal(1),
                "the condition has shape {}, expected one element", text_of(condition));
  const std::size_t thens = context.graph("then_branch").outputs().size();
  const std::size_t elses = context.graph("else_branch").outputs().size();
  context.check(thens == elses, "then_branch has {} outputs, but else_branch {}", thens, elses);
  // A known condition leaves one branch, and the types of that one only.
  if (const Tensor* known = context.constant(0); known != nullptr && known->elements() == 1) {
    const std::string_view branch = known->data<bool>()[0] ? "then_branch" : "else_branch";
    return set_outputs(context, context.infer_subgraph(branch, {}), branch);
  }
  // Exporters write branches for each case of a shape ("2-D grid, 3-D grid"), and with a known shape only one of them
  // is valid. A branch that cannot run is an error only when it is taken.
  std::string fault;
  std::optional<std::vector<ir::ValueType>> types = infer_possible_branch(context, "then_branch", fault);
  const std::optional<std::vector<ir::ValueType>> others = infer_possible_branch(context, "else_branch", fault);
  context.check(types || others, "neither branch can run: {}", fault);
  if (!types || !others) return set_outputs(context, types ? *types : *others, types ? "then_branch" : "else_branch");
  for (std::size_t i = 0; i < types->size(); ++i) (*types)[i] = join_values((*types)[i], (*others)[i]);
  set_outputs(context, *types, "each branch");
}

// The part of a value's type that does not depend on its shape: its kind and element type.
ir::ValueType without_shape(const ir::ValueType& type) {
  if (type.is_tensor()) return ir::ValueType::tensor(type.dtype);
  if (!type.element || type.kind == Kind::map) return type;
  ir::ValueType result = type;
  result.element = std::make_shared<const ir::ValueType>(without_shape(*type.element));
  return result;
}

// The types of the values that a body carries, joined until another iteration changes nothing. `carried` are the
// initial types; the body takes `before`, the carried values and `after`, and returns `skip` values, the carried ones
// and others. Returns the types of all that the body returns, given the final `carried`.
std::vector<ir::ValueType> join_iterations(const InferContext& context, const std::vector<ir::ValueType>& before,
                                           std::vector<ir::ValueType>& carried, const std::vector<ir::ValueType>& after,
                                           std::size_t skip) {
  const LoopInferenceScope scope(context.graph("body"));
  // Every round but the last loses a known dimension or rank, so this ends.
  for (;;) {
    const bool last = scope.exhausted();
    if (last) std::transform(carried.begin(), carried.end(), carried.begin(), without_shape);
    std::vector<ir::ValueType> inputs = before;
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    inputs.insert(inputs.end(), after.begin(), after.end());
    std::vector<ir::ValueType> results = context.infer_subgraph("body", std::move(inputs));
    context.check(results.size() >= skip + carried.size(), "its body returns {} values, expected at least {}",
                  results.size(), skip + carried.size());
    bool changed = false;
    for (std::size_t i = 0; i < carried.size(); ++i) {
      ir::ValueType joined = join_values(carried[i], results[skip + i]);
      changed = changed || !(joined == carried[i]);
      carried[i] = std::move(joined);
    }
    if (!changed || last) return results;
  }
}

// A tensor with `length` values of type `element` along a new axis; the axis counts in the result.
ir::ValueType stacked(const InferContext& context, const ir::ValueType& element, const ir::Dim& length,
                      std::int64_t axis) {
  context.check(element.is_tensor(), "a scan output is {}, expected a tensor", text_of(element));
  if (!element.dims) return element;
  ir::Dims dims = *element.dims;
  const std::int64_t at = normalise_axis(axis, static_cast<std::int64_t>(dims.size()) + 1);
  dims.insert(dims.begin() + at, length);
  return ir::ValueType::tensor(element.dtype, std::move(dims));
}

void check_control_flow_scalar(const InferContext& context, std::size_t input) {
  if (!context.has_input(input) || context.dims(input) == nullptr) return;
  context.check(ir::product(*context.dims(input)).may_equal(1), "'{}' has shape {}, expected one element",
                context.op().inputs[input].name, text_of(*context.dims(input)));
}

void infer_loop(InferContext& context) {
  check_control_flow_scalar(context, 0);
  check_control_flow_scalar(context, 1);
  std::vector<ir::ValueType> carried;
  for (std::size_t i = 2; i < context.input_count(); ++i) {
    context.check(context.has_input(i), "the initial value of loop-carried value {} is missing", i - 2);
    carried.push_back(context.input(i));
  }
  const ir::Graph& body = context.graph("body");
  const std::vector<ir::ValueType> before{ir::ValueType::tensor(DType::i64, loop_scalar_dims(body, 0)),
                                          ir::ValueType::tensor(DType::boolean, loop_scalar_dims(body, 1))};
  const std::vector<ir::ValueType> results = join_iterations(context, before, carried, {}, 1);
  std::vector<ir::ValueType> outputs;
  for (std::size_t i = 0; i < carried.size(); ++i) {
    // A carried value that starts as an optional may end as the optional's element type.
    outputs.push_back(carried[i].kind == results[i + 1].kind ? carried[i] : results[i + 1]);
  }
  for (std::size_t i = 1 + carried.size(); i < results.size(); ++i) {
    outputs.push_back(stacked(context, results[i], ir::Dim(), 0));
  }
  set_outputs(context, outputs, "its body");
}

void infer_scan(InferContext& context) {
  const ScanPlan plan = read_scan(context, context.input_count());
  std::vector<ir::ValueType> carried, elements;
  for (std::size_t i = 0; i < context.input_count(); ++i) context.check(context.has_input(i), "input {} is missing", i);
  for (std::size_t i = 0; i < plan.states; ++i) carried.push_back(context.input(i));
  ir::Dim length;
  for (std::size_t i = 0; i < plan.scan_inputs; ++i) {
    ir::ValueType type = context.input(plan.states + i);
    context.check(type.is_tensor(), "scan input {} is {}, expected a tensor", i, text_of(type));
    if (type.dims) {
      const std::int64_t axis = normalise_axis(plan.input_axes[i], static_cast<std::int64_t>(type.dims->size()));
      const ir::Dim size = (*type.dims)[static_cast<std::size_t>(axis)];
      context.check(size.may_equal(length), "scan inputs have different lengths: {} and {}", text_of(length),
                    text_of(size));
      if (length.is_unknown() || size.is_known()) length = size;
      type.dims->erase(type.dims->begin() + axis);
    }
    elements.push_back(std::move(type));
  }
  const std::vector<ir::ValueType> results = join_iterations(context, {}, carried, elements, 0);
  std::vector<ir::ValueType> outputs = carried;
  for (std::size_t i = plan.states; i < results.size(); ++i) {
    outputs.push_back(stacked(context, results[i], length, plan.output_axes[i - plan.states]));
  }
  set_outputs(context, outputs, "its body");
}

void infer_sequence_map(InferContext& context) {
  std::vector<ir::ValueType> elements;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    context.check(context.has_input(i), "input {} is missing", i);
    const ir::ValueType& type = context.input(i);
    context.check(i > 0 || type.kind == Kind::sequence, "the first input is {}, expected a sequence", text_of(type));
    elements.push_back(type.kind == Kind::sequence ? *type.element : type);
  }
  std::vector<ir::ValueType> results = context.infer_subgraph("body", std::move(elements));
  for (ir::ValueType& type : results) type = ir::ValueType::sequence(std::move(type));
  set_outputs(context, results, "its body");
}

std::vector<std::int64_t> list_of_control_flow(const AttributeReader& reader, std::string_view name,
                                               std::size_t count) {
  std::vector<std::int64_t> list = reader.integers_or_empty(name);
  if (list.empty()) list.assign(count, 0);
  require(list.size() == count, ErrorKind::invalid_model, "attribute '{}' has {} entries, expected {}", name,
          list.size(), count);
  return list;
}

std::vector<bool> directions_of(const AttributeReader& reader, std::string_view name, std::size_t count) {
  std::vector<bool> backwards;
  for (const std::int64_t direction : list_of_control_flow(reader, name, count)) {
    require(direction == 0 || direction == 1, ErrorKind::invalid_model,
            "attribute '{}' has the entry {}, expected 0 or 1", name, direction);
    backwards.push_back(direction == 1);
  }
  return backwards;
}

Parameter anything(std::string_view name, Parameter::Option option) {
  return {.name = name, .types = types::all, .option = option, .any_kind = true};
}

AttributeSpec body(std::string_view name) {
  return {name, ir::AttributeKind::graph, std::nullopt, true};
}

}  // namespace

ir::Dims loop_scalar_dims(const ir::Graph& body, std::size_t input) {
  if (input >= body.inputs().size()) return {};
  const ir::ValueType& type = body.value(body.inputs()[input]).type;
  return type.dims && type.dims->size() == 1 ? ir::Dims{1} : ir::Dims{};
}

ScanPlan read_scan(const AttributeReader& reader, std::size_t input_count) {
  ScanPlan plan;
  const std::int64_t scanned = reader.integer("num_scan_inputs");
  require(scanned >= 1 && scanned <= static_cast<std::int64_t>(input_count), ErrorKind::invalid_model,
          "num_scan_inputs is {}, expected 1 to {}", scanned, input_count);
  plan.scan_inputs = static_cast<std::size_t>(scanned);
  plan.states = input_count - plan.scan_inputs;
  const std::size_t results = reader.graph("body").outputs().size();
  require(results >= plan.states, ErrorKind::invalid_model, "its body returns {} values, expected at least {}", results,
          plan.states);
  plan.scan_outputs = results - plan.states;
  plan.input_axes = list_of_control_flow(reader, "scan_input_axes", plan.scan_inputs);
  plan.output_axes = list_of_control_flow(reader, "scan_output_axes", plan.scan_outputs);
  plan.input_backwards = directions_of(reader, "scan_input_directions", plan.scan_inputs);
  plan.output_backwards = directions_of(reader, "scan_output_directions", plan.scan_outputs);
  return plan;
}

const OpDef if_op{
    .name = "If",
    .since = 25,
    .inputs = {{"cond", types::boolean}},
    .outputs = {anything("outputs", variadic)},
    .attributes = {body("then_branch"), body("else_branch")},
    .infer = infer_if,
};

// Body: (iteration number i64, condition bool, carried values...) -> (condition, carried values..., scan outputs...).
// Loop's outputs: the carried values after the last iteration, then the scan outputs stacked along a new first axis.
const OpDef loop{
    .name = "Loop",
    .since = 25,
    .inputs = {{"M", types::i64, "", optional},
               {"cond", types::boolean, "", optional},
               anything("v_initial", variadic)},
    .outputs = {anything("v_final_and_scan_outputs", variadic)},
    .attributes = {body("body")},
    .infer = infer_loop,
};

// Body: (states..., one slice of every scan input...) -> (states..., one slice of every scan output...).
const OpDef scan{
    .name = "Scan",
    .since = 25,
    .inputs = {anything("initial_state_and_scan_inputs", variadic)},
    .outputs = {anything("final_state_and_scan_outputs", variadic)},
    .attributes = {body("body"),
                   {"num_scan_inputs", ir::AttributeKind::integer, std::nullopt, true},
                   {"scan_input_axes", ir::AttributeKind::integers},
                   {"scan_input_directions", ir::AttributeKind::integers},
                   {"scan_output_axes", ir::AttributeKind::integers},
                   {"scan_output_directions", ir::AttributeKind::integers}},
    .infer = infer_scan,
};

// Runs the body for every element of the first sequence; other sequences are iterated alongside, tensors are passed
// whole.
const OpDef sequence_map{
    .name = "SequenceMap",
    .since = 17,
    .inputs = {anything("input_sequence", Parameter::Option::required), anything("additional_inputs", variadic)},
    .outputs = {anything("out_sequence", variadic)},
    .attributes = {body("body")},
    .infer = infer_sequence_map,
};

}  // namespace tessera::ops
