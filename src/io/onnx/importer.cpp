#include "io/onnx/importer.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "io/onnx/upgrade/upgrade.h"
#include "ir/constant_role.h"
#include "ops/core/shape_arguments.h"

namespace tessera::io {

using tessera_onnx::GraphProto;
using tessera_onnx::NodeProto;
using tessera_onnx::TypeProto;

namespace {

constexpr std::int64_t kNewestIrVersion = 13;
constexpr std::string_view kVariable = "tessera.variable/";  // + initializer: the name of the variable
constexpr std::string_view kUpdate = "tessera.update/";      // + variable: the value that becomes its state

template <typename TensorType>
ir::ValueType tensor_type(const TensorType& proto) {
  if (proto.elem_type() == 0) return {};  // says nothing
  ir::ValueType type = ir::ValueType::tensor(to_dtype(proto.elem_type()));
  if (!proto.has_shape()) return type;
  type.dims.emplace();
  require(proto.shape().dim_size() <= ops::max_rank, ErrorKind::unsupported,
          "a tensor of rank {}; at most {} is supported", proto.shape().dim_size(), ops::max_rank);
  for (const auto& dim : proto.shape().dim()) {
    if (dim.has_dim_value()) {
      // Some exporters write -1 for a dimension that they do not know.
      require(dim.dim_value() >= -1, ErrorKind::invalid_model, "dimension {} in a declared shape", dim.dim_value());
      type.dims->push_back(dim.dim_value() == -1 ? ir::Dim() : ir::Dim(dim.dim_value()));
    } else {
      type.dims->push_back(dim.dim_param().empty() ? ir::Dim() : ir::Dim::symbol(dim.dim_param()));
    }
  }
  return type;
}

}  // namespace

void UnsupportedList::add(const std::string& what, const std::string& node) {
  nodes_[what].push_back(node);
}

void UnsupportedList::raise() const {
  if (nodes_.empty()) return;
  constexpr std::size_t kNamed = 5, kListed = 30;
  std::vector<std::string> lines;
  for (const auto& [what, names] : nodes_) {
    if (lines.size() == kListed) break;
    const std::span named(names.data(), std::min(names.size(), kNamed));
    std::string line = fmt::format("{} ({}", what, fmt::join(named, ", "));
    if (names.size() > kNamed) line += fmt::format(" and {} more", names.size() - kNamed);
    lines.push_back(line + ")");
  }
  if (nodes_.size() > kListed) lines.push_back(fmt::format("and {} more", nodes_.size() - kListed));
  throw Error(ErrorKind::unsupported, fmt::format("the model needs what is not supported: {}", fmt::join(lines, "; ")));
}

std::string describe(const NodeProto& node) {
  if (!node.name().empty()) return fmt::format("node '{}' ({})", shown(node.name()), shown(node.op_type()));
  return fmt::format("a {} node with output '{}'", shown(node.op_type()),
                     node.output_size() > 0 ? shown(node.output(0)) : "");
}

std::string short_name(const NodeProto& node) {
  if (!node.name().empty()) return fmt::format("'{}'", shown(node.name()));
  return fmt::format("of output '{}'", node.output_size() > 0 ? shown(node.output(0)) : "");
}

std::string canonical_domain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

ir::ValueType to_value_type(const TypeProto& proto) {
  switch (proto.value_case()) {
    case TypeProto::kTensorType:
      return tensor_type(proto.tensor_type());
    case TypeProto::kSequenceType:
      return ir::ValueType::sequence(to_value_type(proto.sequence_type().elem_type()));
    case TypeProto::kOptionalType:
      return ir::ValueType::optional(to_value_type(proto.optional_type().elem_type()));
    case TypeProto::kMapType:
      return ir::ValueType::map(to_key_type(proto.map_type().key_type()), to_value_type(proto.map_type().value_type()));
    case TypeProto::kSparseTensorType:
      fail(ErrorKind::unsupported, "values that are sparse tensors");
    case TypeProto::kOpaqueType:
      fail(ErrorKind::unsupported, "values of opaque type");
    case TypeProto::VALUE_NOT_SET:
      break;
  }
  return {};
}

Importer::Importer(const tessera_onnx::ModelProto& model, const RawData& raw_data, TensorReader& tensors,
                   const ReadOptions& options)
    : model_(model), raw_data_(raw_data), tensors_(tensors), options_(options) {}

Importer::Opsets Importer::read_opsets(
    const google::protobuf::RepeatedPtrField<tessera_onnx::OperatorSetIdProto>& imports) const {
  Opsets opsets;
  for (const auto& import : imports) {
    const std::string domain = canonical_domain(import.domain());
    require(import.version() >= 1, ErrorKind::invalid_model, "version {} of operator set '{}'", import.version(),
            shown(domain));
    const auto [entry, inserted] = opsets.emplace(domain, import.version());
    require(inserted || entry->second == import.version(), ErrorKind::invalid_model,
            "operator set '{}' is imported in versions {} and {}", shown(domain), entry->second, import.version());
  }
  return opsets;
}

void Importer::check_opsets(const Opsets& opsets) {
  for (const auto& [domain, version] : opsets) {
    const std::int64_t newest = newest_version(domain);
    require(newest == 0 || version <= newest, ErrorKind::unsupported,
            "version {} of operator set '{}'; the newest that is supported is {}", version,
            domain.empty() ? "ai.onnx" : domain, newest);
  }
}

void Importer::read_metadata(ir::Graph& graph) const {
  auto put = [&graph](std::string key, const std::string& text) {
    if (!text.empty()) graph.metadata[std::move(key)] = text;
  };
  put("producer_name", model_.producer_name());
  put("producer_version", model_.producer_version());
  put("domain", model_.domain());
  if (model_.model_version() != 0) put("model_version", std::to_string(model_.model_version()));
  put("doc_string", model_.doc_string());
  put("graph_doc_string", model_.graph().doc_string());
  put("ir_version", std::to_string(model_.ir_version()));
  for (const auto& [domain, version] : opsets_)
    put("opset:" + (domain.empty() ? "ai.onnx" : domain), std::to_string(version));
  for (const auto& property : model_.metadata_props()) {
    const std::string_view key = property.key();
    if (!key.starts_with(kVariable) && !key.starts_with(kUpdate))
      graph.metadata["property:" + property.key()] = property.value();
  }
  auto ignore = [&graph](const char* field, int count) {
    if (count > 0) graph.metadata[std::string("ignored:") + field] = std::to_string(count);
  };
  ignore("training_info", model_.training_info_size());
  ignore("configuration", model_.configuration_size());
  ignore("quantization_annotation", model_.graph().quantization_annotation_size());
  int properties = model_.graph().metadata_props_size();
  for (const NodeProto& node : model_.graph().node()) properties += node.metadata_props_size();
  ignore("metadata_props of graph and nodes", properties);
}

// Takes every name that the graph defines, and refuses a second definition.
void Importer::define_names(const GraphProto& proto, OpenGraph& graph) const {
  for (const auto& input : proto.input()) {
    require(!input.name().empty(), ErrorKind::invalid_model, "a graph input has no name");
    require(graph.reserve(input.name()), ErrorKind::invalid_model, "two graph inputs are named '{}'",
            shown(input.name()));
  }
  std::unordered_set<std::string> initializers;
  auto add_initializer = [&](const std::string& name) {
    require(!name.empty(), ErrorKind::invalid_model, "an initializer has no name");
    require(initializers.insert(name).second, ErrorKind::invalid_model, "two initializers are named '{}'", shown(name));
    graph.reserve(name);
  };
  for (const auto& initializer : proto.initializer()) add_initializer(initializer.name());
  for (const auto& initializer : proto.sparse_initializer()) add_initializer(initializer.values().name());
  for (const NodeProto& node : proto.node()) {
    for (const std::string& output : node.output()) {
      require(output.empty() || graph.reserve(output), ErrorKind::invalid_model,
              "{} defines value '{}', which is defined already", describe(node), shown(output));
    }
  }
}

void Importer::declare_types(const GraphProto& proto, OpenGraph& graph) {
  auto declare = [&](const tessera_onnx::ValueInfoProto& info, bool is_output) {
    try {
      graph.declare(info.name(), to_value_type(info.type()), is_output);
    } catch (Error& error) {
      error.add_context("value '" + shown(info.name()) + "'");
      if (error.kind() != ErrorKind::unsupported) throw;
      unsupported_.add(error.message(), "value '" + shown(info.name()) + "'");
    }
  };
  for (const auto& info : proto.value_info()) declare(info, false);
  for (const auto& info : proto.output()) declare(info, true);
}

void Importer::add_inputs(const GraphProto& proto, Scope& scope, bool is_subgraph) {
  std::unordered_set<std::string> initialized;
  if (!is_subgraph) {
    for (const auto& initializer : proto.initializer()) initialized.insert(initializer.name());
    for (const auto& initializer : proto.sparse_initializer()) initialized.insert(initializer.values().name());
  }
  for (const auto& input : proto.input()) {
    if (initialized.contains(input.name())) {
      note_overridable(input);
      continue;
    }
    try {
      ir::ValueType type = to_value_type(input.type());
      const bool known = !type.is_tensor() || type.dtype != DType::undefined;
      require(known || is_subgraph, ErrorKind::invalid_model, "has no type");
      scope.values[input.name()] = scope.graph->graph.add_input(input.name(), std::move(type));
    } catch (Error& error) {
      error.add_context("graph input '" + shown(input.name()) + "'");
      if (error.kind() != ErrorKind::unsupported) throw;
      unsupported_.add(error.message(), "graph input '" + shown(input.name()) + "'");
      scope.values[input.name()] = scope.graph->graph.add_input(input.name(), {});
    }
  }
}

void Importer::add_outputs(const GraphProto& proto, Scope& scope) {
  for (const auto& output : proto.output()) {
    const auto found = scope.values.find(output.name());
    require(found != scope.values.end() && found->second.valid(), ErrorKind::invalid_model,
            "graph output '{}' is produced by nothing", shown(output.name()));
    scope.graph->graph.add_output(found->second);
  }
}

void Importer::restore_variables(Scope& scope) {
  for (const auto& property : model_.metadata_props()) {
    if (!property.key().starts_with(kUpdate)) continue;
    const auto value = scope.values.find(property.value());
    require(value != scope.values.end(), ErrorKind::invalid_model,
            "the update '{}' of a variable is produced by nothing", shown(property.value()));
    const std::string name = property.key().substr(kUpdate.size());
    const auto& known = scope.graph->graph.variables();
    const bool found =
        std::any_of(known.begin(), known.end(), [&](const ir::Variable& each) { return each.name == name; });
    require(found, ErrorKind::invalid_model, "the model updates variable '{}', which it does not have", shown(name));
    scope.graph->graph.set_variable_update(name, value->second);
  }
}

namespace {

// The part of a value's type in a subgraph that does not depend on shapes: its kind and element type.
ir::ValueType without_shape(const ir::ValueType& type) {
  if (type.is_tensor()) return ir::ValueType::tensor(type.dtype);
  ir::ValueType result = type;
  if (type.element) result.element = std::make_shared<const ir::ValueType>(without_shape(*type.element));
  return result;
}

// Shapes in a subgraph follow from the values passed in at each use; those with which it was imported served only to
// upgrade its operators. An input for which `flowing` has no type keeps its own: a loop's body states in this way which
// scalars it takes.
void forget_shapes(ir::Graph& graph, const std::vector<ir::ValueType>& flowing) {
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    ir::ValueInfo& value = graph.value(ir::ValueId{static_cast<std::int32_t>(i)});
    if (value.origin == ir::Origin::node) value.type = without_shape(value.type);
  }
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    ir::ValueType& type = graph.value(graph.inputs()[i]).type;
    if (i >= flowing.size() || !says_nothing(flowing[i])) type = without_shape(type);
  }
}

}  // namespace

// Gives the inputs of a subgraph the types of the values passed in where the file leaves them open, and their ranks
// always.
void Importer::let_flow_in(const std::vector<ir::ValueType>& flowing, OpenGraph& graph) {
  const std::vector<ir::ValueId>& inputs = graph.graph.inputs();
  for (std::size_t i = 0; i < std::min(inputs.size(), flowing.size()); ++i) {
    ir::ValueInfo& info = graph.graph.value(inputs[i]);
    const ir::ValueType& given = flowing[i];
    if (says_nothing(given)) continue;
    if (says_nothing(info.type)) {
      info.type = given;
    } else if (noted_shapes() != nullptr && info.type.is_tensor() && given.is_tensor() && given.dims) {
      if (info.type.dims && info.type.dims->size() != given.dims->size())
        false_shapes_.add(info.name, info.type, ir::ValueType::tensor(info.type.dtype, *given.dims));
      info.type.dims = given.dims;
    }
  }
}

ir::SubgraphPointer Importer::subgraph(const GraphProto& proto, const Scope& outer, const Captures& captures,
                                       const std::vector<ir::ValueType>& flowing) {
  require(outer.depth < options_.limits.max_nesting, ErrorKind::over_budget, "subgraphs are nested deeper than {}",
          options_.limits.max_nesting);
  OpenGraph graph(noted_shapes());
  graph.graph.name = proto.name();
  Scope scope;
  scope.graph = &graph;
  scope.opsets = outer.opsets;
  scope.arguments = outer.arguments;
  scope.depth = outer.depth + 1;
  scope.in_function = outer.in_function;
  define_names(proto, graph);
  declare_types(proto, graph);
  add_inputs(proto, scope, true);
  let_flow_in(flowing, graph);
  const Names& wanted = free_names(proto);
  const std::unordered_set<std::string> uses(wanted.begin(), wanted.end());
  for (std::size_t i = 0; i < captures.names.size(); ++i) {
    // Another subgraph of the node may capture a name that this one defines itself.
    const std::string& name = captures.names[i];
    const ir::ValueId id =
        graph.graph.add_input(graph.unique_name(name), outer.graph->graph.value(captures.ids[i]).type);
    if (uses.contains(name)) scope.values[name] = id;
  }
  for (const std::string& name : captures.constants) {
    if (!uses.contains(name)) continue;
    const ir::ValueId constant = resolve(outer, name);
    scope.values[name] = graph.add_constant(*outer.graph->graph.constant(constant), name);
    ir::set_role(graph.graph, scope.values[name], ir::role_of(outer.graph->graph, constant));
  }
  for (const std::string& name : captures.absent) {
    if (uses.contains(name)) scope.values[name] = {};
  }
  add_initializers(proto, scope, true);
  add_nodes(proto.node(), scope);
  add_outputs(proto, scope);
  if (noted_shapes() != nullptr) forget_shapes(graph.graph, flowing);
  return std::make_shared<const ir::Graph>(std::move(graph.graph));
}

ir::Graph Importer::run() {
  require(model_.has_graph(), ErrorKind::invalid_model,
          "the file has no graph: it is not an ONNX model, or it is truncated");
  require(raw_data_.size() == static_cast<std::size_t>(model_.graph().initializer_size()), ErrorKind::invalid_model,
          "not an ONNX model: the graph's initializers cannot be told apart");
  require(model_.ir_version() <= kNewestIrVersion, ErrorKind::unsupported,
          "the file is of IR version {}; the newest that is supported is {}", model_.ir_version(), kNewestIrVersion);
  opsets_ = read_opsets(model_.opset_import());
  if (model_.ir_version() < 3) opsets_.emplace("", 1);  // operator sets have versions since IR version 3
  check_opsets(opsets_);
  for (const auto& function : model_.functions()) {
    const FunctionKey key{canonical_domain(function.domain()), function.name(), function.overload()};
    require(functions_.emplace(key, &function).second, ErrorKind::invalid_model,
            "function '{}' of domain '{}' is defined twice", shown(function.name()), shown(function.domain()));
  }
  for (const auto& property : model_.metadata_props()) {
    if (property.key().starts_with(kVariable)) variables_[property.key().substr(kVariable.size())] = property.value();
  }
  OpenGraph graph(noted_shapes());
  graph.graph.name = model_.graph().name();
  Scope scope;
  scope.graph = &graph;
  scope.opsets = &opsets_;
  define_names(model_.graph(), graph);
  declare_types(model_.graph(), graph);
  add_inputs(model_.graph(), scope, false);
  add_initializers(model_.graph(), scope, false);
  add_nodes(model_.graph().node(), scope);
  if (options_.require_supported) {
    UnsupportedList all = operators_;
    all.merge(unsupported_);
    all.raise();
  }
  unsupported_.raise();
  add_outputs(model_.graph(), scope);
  for (const ir::ValueId output : graph.graph.outputs()) declared_outputs_.push_back(graph.declared(output));
  restore_variables(scope);
  read_metadata(graph.graph);
  describe_overridable(scope);
  return std::move(graph.graph);
}

}  // namespace tessera::io
