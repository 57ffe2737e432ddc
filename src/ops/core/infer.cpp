#include "ops/core/infer.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/text_of.h"
#include "ops/op_table.h"
#include "ops/symbols.h"

namespace tessera::ops {
namespace {

const Parameter& parameter_at(const std::vector<Parameter>& parameters, std::size_t i) {
  return i < parameters.size() ? parameters[i] : parameters.back();
}

void check_arity(const ir::Node& node, const OpDef& op) {
  const std::size_t given = node.formal_inputs();
  const bool open_ended = !op.inputs.empty() && op.inputs.back().option == variadic;
  require(given <= op.inputs.size() || open_ended, ErrorKind::invalid_model,
          "takes at most {} inputs, but {} are given", op.inputs.size(), given);
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const bool present = i < given && node.inputs[i].valid();
    const bool may_be_absent =
        op.inputs[i].option == Parameter::Option::optional || (op.inputs[i].option == variadic && i > 0 && i >= given);
    require(present || may_be_absent, ErrorKind::invalid_model, "input '{}' is missing", op.inputs[i].name);
  }
  // A variadic list of operands has no gaps: only optional parameters can be left out.
  for (std::size_t i = op.inputs.size(); open_ended && i < given; ++i) {
    require(node.inputs[i].valid(), ErrorKind::invalid_model, "input {} ('{}') is missing", i, op.inputs.back().name);
  }
  const bool open_outputs = !op.outputs.empty() && op.outputs.back().option == variadic;
  require(node.outputs.size() <= op.outputs.size() || open_outputs, ErrorKind::invalid_model,
          "has at most {} outputs, but {} are asked for", op.outputs.size(), node.outputs.size());
}

void check_kinds(const ir::Attributes& attributes, const OpDef& op) {
  for (const auto& [name, attribute] : attributes) {
    const auto spec = std::find_if(op.attributes.begin(), op.attributes.end(),
                                   [&](const AttributeSpec& s) { return s.name == name; });
    require(spec != op.attributes.end(), ErrorKind::invalid_model, "has no attribute '{}'", name);
    require(ir::kind_of(attribute) == spec->kind, ErrorKind::invalid_model, "attribute '{}' is of kind {}, expected {}",
            name, ir::to_string(ir::kind_of(attribute)), ir::to_string(spec->kind));
  }
}

void check_infer_attributes(const ir::Node& node, const OpDef& op) {
  check_kinds(node.attributes, op);
  check_kinds(attributes_of_symbol(node), op);
  for (const AttributeSpec& spec : op.attributes) {
    require(!spec.required || states_attribute(node, spec.name), ErrorKind::invalid_model, "attribute '{}' is missing",
            spec.name);
  }
}

// The name and the element type of the first input before input i that has its type variable.
std::optional<std::pair<std::string_view, DType>> first_of_variable(const ir::Graph& graph, const ir::Node& node,
                                                                    const OpDef& op, std::size_t i) {
  for (std::size_t k = 0; k < i; ++k) {
    const Parameter& parameter = parameter_at(op.inputs, k);
    if (node.inputs[k].valid() && !parameter.any_kind && parameter.variable == parameter_at(op.inputs, i).variable)
      return std::pair(parameter.name, graph.value(node.inputs[k]).type.dtype);
  }
  return std::nullopt;
}

void check_types(const ir::Graph& graph, const ir::Node& node, const OpDef& op) {
  for (std::size_t i = 0; i < node.formal_inputs(); ++i) {
    if (!node.inputs[i].valid()) continue;
    const Parameter& parameter = parameter_at(op.inputs, i);
    const ir::ValueType& type = graph.value(node.inputs[i]).type;
    if (parameter.any_kind) continue;
    require(type.is_tensor(), ErrorKind::invalid_model, "input '{}' is {}, expected a tensor", parameter.name,
            text_of(type));
    require(type.dtype != DType::undefined, ErrorKind::invalid_model, "the element type of input '{}' is not known",
            parameter.name);
    require(parameter.types.contains(type.dtype), ErrorKind::invalid_model, "input '{}' is {}, expected one of: {}",
            parameter.name, name_of(type.dtype), text_of(parameter.types));
    if (parameter.variable.empty()) continue;
    const auto first = first_of_variable(graph, node, op, i);
    if (!first || first->second == type.dtype) continue;
    fail(ErrorKind::invalid_model, "inputs '{}' ({}) and '{}' ({}) must have the same element type", first->first,
         name_of(first->second), parameter.name, name_of(type.dtype));
  }
}

bool says_nothing(const ir::ValueType& type) {
  return type.is_tensor() && type.dtype == DType::undefined;
}

// An optional may be declared as its element type, and the other way round.
bool of_one_kind(const ir::ValueType& a, const ir::ValueType& b) {
  using Kind = ir::ValueType::Kind;
  return a.kind == b.kind || a.kind == Kind::optional || b.kind == Kind::optional;
}

// Merges the declared type of a value with the inferred one.
ir::ValueType refine(const ir::ValueType& declared, ir::ValueType found) {
  require(says_nothing(declared) || says_nothing(found) || of_one_kind(declared, found), ErrorKind::invalid_model,
          "declared as {}, but computes {}", text_of(declared), text_of(found));
  if (!declared.is_tensor() || !found.is_tensor() || found.dtype == DType::undefined)
    return found.is_tensor() && found.dtype == DType::undefined ? declared : found;
  if (declared.dtype == DType::undefined) return found;
  require(declared.dtype == found.dtype, ErrorKind::invalid_model, "declared as {}, but computes {}", text_of(declared),
          text_of(found));
  if (!declared.dims) return found;
  if (!found.dims) return declared;
  require(declared.dims->size() == found.dims->size(), ErrorKind::invalid_model, "declared as {}, but computes {}",
          text_of(declared), text_of(found));
  for (std::size_t i = 0; i < found.dims->size(); ++i) {
    const ir::Dim& wanted = (*declared.dims)[i];
    ir::Dim& dim = (*found.dims)[i];
    require(dim.may_equal(wanted), ErrorKind::invalid_model, "declared as {}, but computes {}", text_of(declared),
            text_of(found));
    if (dim.is_unknown() || (dim.is_symbol() && wanted.is_known())) dim = wanted;
  }
  return found;
}

}  // namespace

std::vector<ir::ValueType> infer_node(const ir::Graph& graph, const ir::Node& node,
                                      const InferContext::ConstantLookup& constants) {
  const OpDef& op = op_of(node);
  try {
    check_arity(node, op);
    check_infer_attributes(node, op);
    check_types(graph, node, op);
    InferContext context(graph, node, op, constants);
    op.infer(context);
    std::vector<ir::ValueType> types(node.outputs.size());
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (node.outputs[i].valid() && context.results()[i]) types[i] = *context.results()[i];
      require(!types[i].dims || static_cast<std::int64_t>(types[i].dims->size()) <= max_rank, ErrorKind::invalid_model,
              "a result of rank {}, expected at most {}", types[i].dims ? types[i].dims->size() : 0, max_rank);
    }
    return types;
  } catch (Error& error) {
    error.add_context(ir::describe(node));
    throw;
  }
}

void infer_node_in_place(ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  std::vector<ir::ValueType> types =
      infer_node(graph, node, [&graph](ir::ValueId value) { return graph.constant(value); });
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    ir::ValueInfo& info = graph.value(node.outputs[i]);
    try {
      info.type = refine(info.type, std::move(types[i]));
    } catch (Error& error) {
      error.add_context(fmt::format("value '{}'", base::shown(info.name))).add_context(ir::describe(graph, id));
      throw;
    }
  }
}

void infer_graph(ir::Graph& graph) {
  for (ir::NodeId id : graph.order()) infer_node_in_place(graph, id);
}

namespace {

// The number of nodes that loops may still infer within the current grant; nothing outside of loops.
thread_local std::optional<std::int64_t> loop_inferences_left;

std::int64_t nodes_at_any_depth(const ir::Graph& graph) {
  std::int64_t count = static_cast<std::int64_t>(graph.node_count());
  for (ir::NodeId id : graph.order()) {
    for (const auto& [name, subgraph] : ir::subgraphs_of(graph.node(id))) count += nodes_at_any_depth(*subgraph);
  }
  return count;
}

}  // namespace

LoopInferenceScope::LoopInferenceScope(const ir::Graph& body) : outermost_(!loop_inferences_left) {
  // Enough for three nested loops that all take two rounds.
  if (outermost_) loop_inferences_left = 8 * nodes_at_any_depth(body) + 1000;
}

LoopInferenceScope::~LoopInferenceScope() {
  if (outermost_) loop_inferences_left.reset();
}

bool LoopInferenceScope::exhausted() const {
  return *loop_inferences_left <= 0;
}

namespace {

// The type of a subgraph's input, given its declared type and that of the value passed in, whose shape takes
// precedence.
ir::ValueType passed(const ir::ValueType& own, const ir::ValueType& given) {
  if (!own.is_tensor() || !given.is_tensor() || own.dtype == DType::undefined) return refine(own, given);
  return refine(ir::ValueType::tensor(own.dtype), given);
}

}  // namespace

std::vector<ir::ValueType> infer_subgraph(const ir::Graph& subgraph, std::span<const ir::ValueType> inputs) {
  if (loop_inferences_left) *loop_inferences_left -= static_cast<std::int64_t>(subgraph.node_count()) + 1;
  ir::Graph copy = subgraph;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ir::ValueInfo& info = copy.value(copy.inputs()[i]);
    if (inputs[i].is_tensor() && inputs[i].dtype == DType::undefined) continue;
    info.type = passed(info.type, inputs[i]);
  }
  infer_graph(copy);
  std::vector<ir::ValueType> types;
  for (ir::ValueId output : copy.outputs()) types.push_back(copy.value(output).type);
  return types;
}

}  // namespace tessera::ops
