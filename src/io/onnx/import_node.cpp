// Nodes, attributes, Constant nodes and calls of local functions.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "io/onnx/import_body.h"
#include "io/onnx/importer.h"
#include "io/onnx/upgrade/upgrade.h"
#include "ir/constant_role.h"
#include "ops/op_table.h"

namespace tessera::io {

using tessera_onnx::AttributeProto;
using tessera_onnx::FunctionProto;
using tessera_onnx::GraphProto;
using tessera_onnx::NodeProto;

namespace {

// AttributeProto.type
enum AttributeType : std::int32_t {
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14,
};

// Prefixes of names inside a function stay short, however long the names in the file are.
constexpr std::size_t kMaxPrefix = 200;

std::string opset_name(const std::string& domain) {
  return domain.empty() ? "ai.onnx" : shown(domain);
}

template <typename T>
Tensor vector_tensor(std::span<const T> values) {
  return Tensor::from<T>({static_cast<std::int64_t>(values.size())}, values);
}

}  // namespace

std::int32_t attribute_type(const AttributeProto& attribute) {
  if (attribute.type() != 0) return attribute.type();
  if (attribute.has_t()) return kTensor;
  if (attribute.has_g()) return kGraph;
  if (attribute.floats_size() > 0) return kFloats;
  if (attribute.ints_size() > 0) return kInts;
  if (attribute.strings_size() > 0) return kStrings;
  if (attribute.tensors_size() > 0) return kTensors;
  if (attribute.has_f()) return kFloat;
  if (attribute.has_i()) return kInt;
  if (attribute.has_s()) return kString;
  return 0;
}

ir::ValueId Importer::resolve(const Scope& scope, const std::string& name) const {
  if (name.empty()) return {};
  const auto found = scope.values.find(name);
  require(found != scope.values.end(), ErrorKind::invalid_model, "value '{}' is produced by nothing", shown(name));
  return found->second;
}

// The name of a value in the graph being built; called once for each definition.
std::string Importer::final_name(Scope& scope, const std::string& name) const {
  if (scope.prefix.empty()) return name;  // reserved by define_names
  if (const auto found = scope.final_names.find(name); found != scope.final_names.end()) return found->second;
  return scope.graph->unique_name(scope.prefix + name.substr(0, kMaxPrefix));
}

ir::ValueId Importer::define(Scope& scope, const std::string& name) const {
  const ir::ValueId id = scope.graph->add_value(final_name(scope, name));
  scope.values[name] = id;
  return id;
}

// Limits the expansion of functions in nodes and in bytes: a small function with a large constant may be called often.
void Importer::count_node(const NodeProto& proto, const Scope& scope) {
  if (!scope.in_function) return;
  require(++inlined_nodes_ <= options_.limits.max_inlined_nodes, ErrorKind::over_budget,
          "the model's functions expand to more than {} nodes", options_.limits.max_inlined_nodes);
  count_inlined_bytes(static_cast<std::int64_t>(proto.ByteSizeLong()));
}

void Importer::count_inlined_bytes(std::int64_t bytes) {
  inlined_bytes_ += bytes;
  require(inlined_bytes_ <= options_.limits.max_inlined_bytes, ErrorKind::over_budget,
          "the model's functions expand to more than {} bytes", options_.limits.max_inlined_bytes);
}

void Importer::add_nodes(const Nodes& nodes, Scope& scope) {
  for (const NodeProto* node : sorted(nodes)) {
    try {
      add_node(*node, scope);
    } catch (Error& error) {
      error.add_context(describe(*node));
      throw;
    }
  }
}

void Importer::add_node(const NodeProto& proto, Scope& scope) {
  count_node(proto, scope);
  const std::string domain = canonical_domain(proto.domain());
  require(!proto.op_type().empty(), ErrorKind::invalid_model, "the node names no operator");
  if (const auto function = functions_.find(FunctionKey{domain, proto.op_type(), proto.overload()});
      function != functions_.end()) {
    call_function(proto, *function->second, scope);
  } else if (domain.empty() && proto.op_type() == "Constant") {
    add_constant(proto, scope);
  } else {
    add_operator(proto, domain, scope);
  }
}

std::vector<Importer::ResolvedAttribute> Importer::resolve_attributes(const NodeProto& proto,
                                                                      const Scope& scope) const {
  std::vector<ResolvedAttribute> resolved;
  std::unordered_set<std::string_view> names;
  for (const AttributeProto& attribute : proto.attribute()) {
    require(!attribute.name().empty(), ErrorKind::invalid_model, "an attribute has no name");
    require(names.insert(attribute.name()).second, ErrorKind::invalid_model, "attribute '{}' is given twice",
            shown(attribute.name()));
    if (attribute.ref_attr_name().empty()) {
      resolved.push_back({attribute.name(), &attribute});
      continue;
    }
    require(scope.arguments != nullptr, ErrorKind::invalid_model,
            "attribute '{}' refers to a function's attribute outside of a function", shown(attribute.name()));
    const auto argument = scope.arguments->find(attribute.ref_attr_name());
    if (argument == scope.arguments->end()) continue;  // not given to the function: not given here
    require(attribute.type() == 0 || attribute.type() == attribute_type(*argument->second), ErrorKind::invalid_model,
            "attribute '{}' is of type {}, but refers to '{}' of type {}", shown(attribute.name()), attribute.type(),
            shown(attribute.ref_attr_name()), attribute_type(*argument->second));
    resolved.push_back({attribute.name(), argument->second});
  }
  return resolved;
}

// In order of name, so that the order does not depend on how the file orders nodes and attributes.
Importer::Captures Importer::find_captures(const std::vector<ResolvedAttribute>& attributes, const Scope& scope) {
  std::set<std::string> free;
  for (const ResolvedAttribute& attribute : attributes) {
    if (attribute_type(*attribute.value) != kGraph) continue;
    const Names& names = free_names(attribute.value->g());
    free.insert(names.begin(), names.end());
  }
  Captures captures;
  for (const std::string& name : free) {
    const ir::ValueId id = resolve(scope, name);
    if (!id.valid()) {
      captures.absent.push_back(name);
    } else if (scope.graph->graph.is_constant(id) && !may_be_overridden(scope, id)) {
      captures.constants.push_back(name);
    } else {
      captures.names.push_back(name);
      captures.ids.push_back(id);
    }
  }
  return captures;
}

ir::Attribute Importer::to_attribute(const AttributeProto& proto, const Scope& scope, const Captures& captures,
                                     const std::vector<ir::ValueType>& flowing) {
  switch (attribute_type(proto)) {
    case kFloat:
      return proto.f();
    case kInt:
      return proto.i();
    case kString:
      return proto.s();
    case kTensor:
      return tensors_.read(proto.t());
    case kGraph:
      return subgraph(proto.g(), scope, captures, flowing);
    case kFloats:
      return std::vector<float>(proto.floats().begin(), proto.floats().end());
    case kInts:
      return std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
    case kStrings:
      return std::vector<std::string>(proto.strings().begin(), proto.strings().end());
    case kTensors: {
      std::vector<Tensor> tensors;
      for (const auto& tensor : proto.tensors()) tensors.push_back(tensors_.read(tensor));
      return tensors;
    }
    case kTypeProto:
      return to_value_type(proto.tp());
    case kGraphs:
      fail(ErrorKind::unsupported, "attributes that are lists of graphs");
    case kTypeProtos:
      fail(ErrorKind::unsupported, "attributes that are lists of types");
    case kSparseTensor:
    case kSparseTensors:
      fail(ErrorKind::unsupported, "attributes that are sparse tensors");
    default:
      fail(ErrorKind::invalid_model, "has no value of a known type ({})", proto.type());
  }
}

void Importer::add_operator(const NodeProto& proto, const std::string& domain, Scope& scope) {
  ir::Node node;
  node.op = domain.empty() ? proto.op_type() : domain + "::" + proto.op_type();
  node.name = scope.prefix + proto.name();
  for (const std::string& input : proto.input()) node.inputs.push_back(resolve(scope, input));
  const std::vector<ResolvedAttribute> attributes = resolve_attributes(proto, scope);
  const Captures captures = find_captures(attributes, scope);
  node.inputs.insert(node.inputs.end(), captures.ids.begin(), captures.ids.end());
  node.captures = static_cast<std::int32_t>(captures.ids.size());

  const auto imported = scope.opsets->find(domain);
  require(imported != scope.opsets->end() || !domain.empty(), ErrorKind::invalid_model,
          "the model does not say which version of operator set 'ai.onnx' it uses");
  const std::int64_t version =
      imported != scope.opsets->end() ? imported->second : std::max<std::int64_t>(newest_version(domain), 1);
  const std::string what =
      fmt::format("operator {} of '{}' version {}", shown(proto.op_type()), opset_name(domain), version);
  const std::vector<ir::ValueType> flowing = flowing_into_body(scope.graph->graph, node, attributes, version);
  const bool known = ops::find_op(node.op) != nullptr || is_rewritten(node.op);
  try {
    for (const ResolvedAttribute& attribute : attributes) {
      try {
        node.attributes.emplace(attribute.name, to_attribute(*attribute.value, scope, captures, flowing));
      } catch (Error& error) {
        if (!known && error.kind() == ErrorKind::unsupported) continue;  // the operator itself is listed
        error.add_context("attribute '" + shown(attribute.name) + "'");
        throw;
      }
    }
    drop_unused_captures(node);
    for (const std::string& output : proto.output())
      node.outputs.push_back(output.empty() ? ir::ValueId{} : define(scope, output));
    Upgrade upgrade(*scope.graph, node, version);
    upgrade_node(upgrade, domain);
    if (ops::find_op(node.op) == nullptr) operators_.add(what, short_name(proto));
    scope.graph->add_node(std::move(node));
    for (ir::Node& after : upgrade.after) scope.graph->add_node(std::move(after));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    // Collects errors, so that the user sees all of them at once. The outputs stay without a producer; this graph is
    // never run.
    unsupported_.add(what + ": " + error.message(), short_name(proto));
    for (const std::string& output : proto.output()) {
      if (!output.empty() && !scope.values.contains(output)) define(scope, output);
    }
  }
}

void Importer::add_constant(const NodeProto& proto, Scope& scope) {
  const std::vector<ResolvedAttribute> attributes = resolve_attributes(proto, scope);
  require(proto.input_size() == 0 && proto.output_size() == 1 && !proto.output(0).empty(), ErrorKind::invalid_model,
          "takes no inputs and has one output");
  require(attributes.size() == 1, ErrorKind::invalid_model,
          "has {} attributes, expected one of value, sparse_value, value_float(s), value_int(s), value_string(s)",
          attributes.size());
  const auto& [name, value] = attributes[0];
  const std::int32_t type = attribute_type(*value);
  Tensor tensor;
  if (name == "value" && type == kTensor) tensor = tensors_.read(value->t());
  else if (name == "sparse_value" && type == kSparseTensor) tensor = tensors_.read_sparse(value->sparse_tensor());
  else if (name == "value_float" && type == kFloat) tensor = Tensor::scalar(value->f());
  else if (name == "value_int" && type == kInt) tensor = Tensor::scalar(value->i());
  else if (name == "value_string" && type == kString) tensor = Tensor::scalar(value->s());
  else if (name == "value_floats" && type == kFloats)
    tensor = vector_tensor<float>({value->floats().data(), static_cast<std::size_t>(value->floats_size())});
  else if (name == "value_ints" && type == kInts)
    tensor = vector_tensor<std::int64_t>({value->ints().data(), static_cast<std::size_t>(value->ints_size())});
  else if (name == "value_strings" && type == kStrings)
    tensor = vector_tensor<std::string>(std::vector<std::string>(value->strings().begin(), value->strings().end()));
  else fail(ErrorKind::invalid_model, "attribute '{}' of type {} is no value of a constant", shown(name), type);
  const bool is_literal = is_float(tensor.dtype());
  const ir::ValueId id = scope.graph->graph.add_constant(std::move(tensor), final_name(scope, proto.output(0)));
  if (is_literal) ir::set_role(scope.graph->graph, id, ir::ConstantRole::literal);
  scope.values[proto.output(0)] = id;
}

Importer::Arguments Importer::read_arguments(const NodeProto& proto, const FunctionProto& function,
                                             const Scope& caller) {
  Arguments arguments;
  for (const AttributeProto& attribute : function.attribute_proto()) arguments[attribute.name()] = &attribute;
  std::unordered_set<std::string_view> declared(function.attribute().begin(), function.attribute().end());
  for (const AttributeProto& attribute : function.attribute_proto()) declared.insert(attribute.name());
  for (const ResolvedAttribute& attribute : resolve_attributes(proto, caller)) {
    require(declared.contains(attribute.name), ErrorKind::invalid_model, "the function has no attribute '{}'",
            shown(attribute.name));
    require(attribute_type(*attribute.value) != kGraph, ErrorKind::unsupported, "subgraphs as arguments of functions");
    arguments[attribute.name] = attribute.value;
  }
  return arguments;
}

// Inlines the function's body into the caller's graph.
void Importer::call_function(const NodeProto& proto, const FunctionProto& function, Scope& caller) {
  const bool active = std::find(calls_.begin(), calls_.end(), &function) != calls_.end();
  require(!active, ErrorKind::invalid_model, "function '{}' calls itself", shown(function.name()));
  require(caller.depth < options_.limits.max_nesting, ErrorKind::over_budget, "functions are nested deeper than {}",
          options_.limits.max_nesting);
  require(proto.input_size() <= function.input_size(), ErrorKind::invalid_model,
          "function '{}' takes {} inputs, but {} are given", shown(function.name()), function.input_size(),
          proto.input_size());
  require(proto.output_size() <= function.output_size(), ErrorKind::invalid_model,
          "function '{}' has {} outputs, but {} are asked for", shown(function.name()), function.output_size(),
          proto.output_size());

  // The cost of a call includes everything that the function declares, used or not.
  constexpr std::int64_t kNameBytes = 64;
  count_inlined_bytes(kNameBytes * (std::int64_t{function.input_size()} + function.output_size() +
                                    function.attribute_size() + function.attribute_proto_size()));
  const auto [opsets, is_new] = function_opsets_.try_emplace(&function);
  if (is_new) {
    opsets->second = read_opsets(function.opset_import());
    opsets->second.insert(opsets_.begin(), opsets_.end());  // what the function does not import is as in the model
    check_opsets(opsets->second);
  }
  const Arguments arguments = read_arguments(proto, function, caller);
  Scope scope;
  scope.graph = caller.graph;
  scope.opsets = &opsets->second;
  scope.arguments = &arguments;
  scope.depth = caller.depth + 1;
  scope.in_function = true;
  scope.prefix = (caller.prefix + (proto.name().empty() ? proto.op_type() : proto.name())).substr(0, kMaxPrefix) + "/";
  for (int i = 0; i < function.input_size(); ++i) {
    const bool fresh =
        scope.values
            .emplace(function.input(i), i < proto.input_size() ? resolve(caller, proto.input(i)) : ir::ValueId{})
            .second;
    require(fresh, ErrorKind::invalid_model, "function '{}' has two inputs named '{}'", shown(function.name()),
            shown(function.input(i)));
  }
  std::vector<std::string> names(static_cast<std::size_t>(proto.output_size()));
  for (int i = 0; i < proto.output_size(); ++i) {
    if (proto.output(i).empty()) continue;
    names[static_cast<std::size_t>(i)] = final_name(caller, proto.output(i));
    scope.final_names.emplace(function.output(i), names[static_cast<std::size_t>(i)]);
  }

  calls_.push_back(&function);
  try {
    add_nodes(function.node(), scope);
  } catch (Error& error) {
    error.add_context("function '" + shown(function.name()) + "'");
    throw;
  }
  calls_.pop_back();

  for (int i = 0; i < proto.output_size(); ++i) {
    const std::string& name = names[static_cast<std::size_t>(i)];
    if (name.empty()) continue;
    ir::ValueId id = resolve(scope, function.output(i));
    require(id.valid(), ErrorKind::invalid_model, "output '{}' of function '{}' is an input that is not given",
            shown(function.output(i)), shown(function.name()));
    if (caller.graph->graph.value(id).name != name) {  // an input passed through, or one value as two outputs
      const ir::ValueId copy = caller.graph->add_value(name);
      caller.graph->add_node({"Identity", "", {id}, {copy}, {}, 0});
      id = copy;
    }
    caller.values[proto.output(i)] = id;
  }
}

}  // namespace tessera::io
