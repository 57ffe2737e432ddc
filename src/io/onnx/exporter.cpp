#include "io/onnx/exporter.h"

#include <algorithm>
#include <set>

#include "base/assert.h"
#include "base/error.h"
#include "io/onnx/downgrade/form_version.h"
#include "ir/constant_role.h"
#include "ir/overridable.h"

namespace tessera::io {

using tessera_onnx::AttributeProto;
using tessera_onnx::GraphProto;
using tessera_onnx::ModelProto;
using tessera_onnx::NodeProto;
using tessera_onnx::TensorProto;
using tessera_onnx::TypeProto;
using tessera_onnx::ValueInfoProto;

namespace {

bool is_known(const ir::ValueType& type) {
  return !type.is_tensor() || type.dtype != DType::undefined;
}

void write_type(const ir::ValueType& type, TypeProto& proto) {
  switch (type.kind) {
    case ir::ValueType::Kind::sequence:
      return write_type(*type.element, *proto.mutable_sequence_type()->mutable_elem_type());
    case ir::ValueType::Kind::optional:
      return write_type(*type.element, *proto.mutable_optional_type()->mutable_elem_type());
    case ir::ValueType::Kind::map:
      proto.mutable_map_type()->set_key_type(static_cast<std::int32_t>(type.dtype));
      return write_type(*type.element, *proto.mutable_map_type()->mutable_value_type());
    case ir::ValueType::Kind::tensor:
      break;
  }
  auto& tensor = *proto.mutable_tensor_type();
  tensor.set_elem_type(static_cast<std::int32_t>(type.dtype));
  if (!type.dims) return;
  auto& shape = *tensor.mutable_shape();
  for (const ir::Dim& dim : *type.dims) {
    auto& written = *shape.add_dim();
    if (dim.is_known()) written.set_dim_value(dim.value());
    else if (dim.is_symbol()) written.set_dim_param(dim.name());
  }
}

std::pair<std::string, std::string> split_op(const std::string& op) {
  const std::size_t border = op.find("::");
  if (border == std::string::npos) return {"", op};
  return {op.substr(0, border), op.substr(border + 2)};
}

}  // namespace

void store_inside(const Tensor& tensor, TensorProto& proto) {
  if (tensor.dtype() == DType::string) {
    for (const std::string& text : tensor.values<std::string>()) proto.add_string_data(text);
  } else {
    proto.set_raw_data(tensor.raw(), static_cast<std::size_t>(tensor.bytes()));
  }
}

void refer_outside(TensorProto& proto, const std::string& location, std::int64_t offset, std::int64_t bytes) {
  auto put = [&proto](const char* key, std::string value) {
    auto& entry = *proto.add_external_data();
    entry.set_key(key);
    entry.set_value(std::move(value));
  };
  put("location", location);
  put("offset", std::to_string(offset));
  put("length", std::to_string(bytes));
  proto.set_data_location(1);
}

std::vector<std::byte> serialise(const google::protobuf::MessageLite& message) {
  const std::size_t size = message.ByteSizeLong();
  require(size < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()), ErrorKind::over_budget,
          "the model has {} bytes; one file holds less than 2 GiB, so write its constants as external data", size);
  std::vector<std::byte> bytes(size);
  require(message.SerializeToArray(bytes.data(), static_cast<int>(size)), ErrorKind::io, "the model cannot be encoded");
  return bytes;
}

bool Exporter::is_taken(const Scope& scope, const std::string& name) const {
  for (const Scope* around = &scope; around != nullptr; around = around->outer) {
    if (around->taken.contains(name)) return true;
  }
  return false;
}

bool Exporter::is_outer_constant(const Scope& scope, const std::string& name, const Tensor& tensor) const {
  for (const Scope* around = scope.outer; around != nullptr; around = around->outer) {
    if (!around->taken.contains(name)) continue;
    const auto found = std::find(around->names.begin(), around->names.end(), name);
    if (found == around->names.end()) return false;
    const Tensor* outer =
        around->graph->constant(ir::ValueId{static_cast<std::int32_t>(found - around->names.begin())});
    return outer != nullptr && outer->shares_storage_with(tensor) && outer->dtype() == tensor.dtype() &&
           outer->shape() == tensor.shape();
  }
  return false;
}

// Names the values of a scope. A value keeps its name unless it is empty, taken already, or taken in an enclosing
// graph. `captured`: the outer names of the last inputs.
void Exporter::name_values(Scope& scope, const std::vector<std::string>& captured) {
  const ir::Graph& graph = *scope.graph;
  scope.names.resize(graph.value_count());
  const std::size_t formal = graph.inputs().size() - captured.size();
  std::vector<bool> named(graph.value_count(), false);
  for (std::size_t i = 0; i < captured.size(); ++i) {
    const auto index = static_cast<std::size_t>(graph.inputs()[formal + i].index);
    scope.names[index] = captured[i];
    named[index] = true;
  }
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    if (named[i]) continue;
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    const std::string& wanted = graph.value(id).name;
    std::string name = wanted.empty() ? "value" : wanted;
    const Tensor* tensor = graph.constant(id);
    const bool shared = tensor != nullptr && is_outer_constant(scope, name, *tensor);
    while (!shared && is_taken(scope, name)) name = wanted + "_" + std::to_string(next_suffix_++);
    scope.taken.insert(name);
    scope.names[i] = std::move(name);
  }
}

void Exporter::write_value(const std::string& name, const ir::ValueType& type, ValueInfoProto& proto) {
  proto.set_name(name);
  if (!is_known(type)) return;
  write_type(type, *proto.mutable_type());
}

// Writes the role as exporters on torch.export state it.
void Exporter::write_role(const ir::Graph& graph, ir::ValueId constant, const std::string& name, GraphProto& proto) {
  const std::optional<std::string> kind = ir::kind_of_role(ir::role_of(graph, constant));
  if (!kind) return;
  ValueInfoProto& info = *proto.add_value_info();
  write_value(name, graph.value(constant).type, info);
  auto& property = *info.add_metadata_props();
  property.set_key("pkg.torch.export.graph_signature.InputSpec.kind");
  property.set_value(*kind);
}

void Exporter::write_tensor(const Tensor& tensor, const std::string& name, TensorProto& proto) {
  proto.set_name(name);
  proto.set_data_type(static_cast<std::int32_t>(tensor.dtype()));
  proto.mutable_dims()->Assign(tensor.shape().begin(), tensor.shape().end());
  store_data_(tensor, proto);
}

void Exporter::write_attribute(const Scope& scope, const ir::Node& node, const ir::Attribute& attribute,
                               AttributeProto& proto) {
  auto kind = [&proto](std::int32_t type) { proto.set_type(type); };
  if (const auto* integer = std::get_if<std::int64_t>(&attribute)) {
    kind(2);
    proto.set_i(*integer);
  } else if (const auto* real = std::get_if<float>(&attribute)) {
    kind(1);
    proto.set_f(*real);
  } else if (const auto* text = std::get_if<std::string>(&attribute)) {
    kind(3);
    proto.set_s(*text);
  } else if (const auto* tensor = std::get_if<Tensor>(&attribute)) {
    kind(4);
    write_tensor(*tensor, "", *proto.mutable_t());
  } else if (const auto* subgraph = std::get_if<ir::SubgraphPointer>(&attribute)) {
    kind(5);
    write_subgraph(scope, node, **subgraph, *proto.mutable_g());
  } else if (const auto* type = std::get_if<ir::ValueType>(&attribute)) {
    kind(13);
    write_type(*type, *proto.mutable_tp());
  } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute)) {
    kind(7);
    proto.mutable_ints()->Assign(integers->begin(), integers->end());
  } else if (const auto* reals = std::get_if<std::vector<float>>(&attribute)) {
    kind(6);
    proto.mutable_floats()->Assign(reals->begin(), reals->end());
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute)) {
    kind(8);
    proto.mutable_strings()->Assign(texts->begin(), texts->end());
  } else if (const auto* tensors = std::get_if<std::vector<Tensor>>(&attribute)) {
    kind(9);
    for (const Tensor& each : *tensors) write_tensor(each, "", *proto.add_tensors());
  }
}

void Exporter::write_subgraph(const Scope& outer, const ir::Node& node, const ir::Graph& subgraph, GraphProto& proto) {
  std::vector<std::string> captured;
  for (std::size_t i = node.formal_inputs(); i < node.inputs.size(); ++i)
    captured.push_back(outer.names[static_cast<std::size_t>(node.inputs[i].index)]);
  TESSERA_ASSERT(subgraph.inputs().size() >= captured.size(),
                 "a subgraph has fewer inputs than its node captures values");
  Scope scope{&subgraph, &outer, {}, {}};
  name_values(scope, captured);
  write_graph(scope, subgraph.inputs().size() - captured.size(), proto);
}

void Exporter::write_node(const Scope& scope, const ir::Node& node, NodeProto& proto) {
  const auto [domain, op] = split_op(node.op);
  proto.set_name(node.name);
  proto.set_op_type(op);
  proto.set_domain(domain);
  for (std::size_t i = 0; i < node.formal_inputs(); ++i)
    proto.add_input(node.inputs[i].valid() ? scope.names[static_cast<std::size_t>(node.inputs[i].index)] : "");
  for (ir::ValueId output : node.outputs)
    proto.add_output(output.valid() ? scope.names[static_cast<std::size_t>(output.index)] : "");
  for (const auto& [name, attribute] : node.attributes) {
    AttributeProto& written = *proto.add_attribute();
    written.set_name(name);
    write_attribute(scope, node, attribute, written);
  }
}

void Exporter::write_graph(const Scope& scope, std::size_t formal_inputs, GraphProto& proto) {
  const ir::Graph& graph = *scope.graph;
  auto name_of_value = [&scope](ir::ValueId id) -> const std::string& {
    return scope.names[static_cast<std::size_t>(id.index)];
  };
  proto.set_name(graph.name.empty() ? "graph" : graph.name);
  for (std::size_t i = 0; i < formal_inputs; ++i)
    write_value(name_of_value(graph.inputs()[i]), graph.value(graph.inputs()[i]).type, *proto.add_input());
  for (ir::ValueId output : graph.outputs())
    write_value(name_of_value(output), graph.value(output).type, *proto.add_output());
  for (const ir::Variable& variable : graph.variables())
    write_tensor(variable.initial, name_of_value(variable.read), *proto.add_initializer());
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    const Tensor* tensor = graph.constant(id);
    if (tensor == nullptr || is_outer_constant(scope, name_of_value(id), *tensor)) continue;
    write_tensor(*tensor, name_of_value(id), *proto.add_initializer());
    write_role(graph, id, name_of_value(id), proto);
  }
  const std::set<ir::ValueId> outputs(graph.outputs().begin(), graph.outputs().end());
  for (ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    for (ir::ValueId output : node.outputs) {
      if (output.valid() && is_known(graph.value(output).type) && !outputs.contains(output))
        write_value(name_of_value(output), graph.value(output).type, *proto.add_value_info());
    }
    write_node(scope, node, *proto.add_node());
  }
}

void Exporter::write_metadata(ModelProto& proto) const {
  constexpr std::string_view kProperty = "property:", kOpset = "opset:", kIgnored = "ignored:";
  for (const auto& [key, value] : form_.graph.metadata) {
    if (key == "producer_name") proto.set_producer_name(value);
    else if (key == "producer_version") proto.set_producer_version(value);
    else if (key == "domain") proto.set_domain(value);
    else if (key == "doc_string") proto.set_doc_string(value);
    else if (key == "graph_doc_string") proto.mutable_graph()->set_doc_string(value);
    else if (key == "model_version") proto.set_model_version(std::strtoll(value.c_str(), nullptr, 10));
    else if (key != "ir_version" && !key.starts_with(kOpset) && !key.starts_with(kIgnored) && !ir::is_role_key(key) &&
             !key.starts_with(ir::kOverridable)) {
      auto& property = *proto.add_metadata_props();
      property.set_key(key.starts_with(kProperty) ? key.substr(kProperty.size()) : key);
      property.set_value(value);
    }
  }
  if (proto.producer_name().empty()) proto.set_producer_name("tessera");
}

void Exporter::write_variables(const Scope& scope, ModelProto& proto) const {
  auto put = [&proto](std::string key, const std::string& value) {
    auto& property = *proto.add_metadata_props();
    property.set_key(std::move(key));
    property.set_value(value);
  };
  for (const ir::Variable& variable : form_.graph.variables()) {
    put("tessera.variable/" + scope.names[static_cast<std::size_t>(variable.read.index)], variable.name);
    if (variable.update.valid())
      put("tessera.update/" + variable.name, scope.names[static_cast<std::size_t>(variable.update.index)]);
  }
}

void Exporter::write_versions(ModelProto& proto) const {
  for (const auto& [domain, version] : form_.versions) {
    auto& import = *proto.add_opset_import();
    import.set_domain(domain);
    import.set_version(version);
    if (domain.empty()) proto.set_ir_version(ir_version_of(version));
  }
}

ModelProto Exporter::run() {
  ModelProto proto;
  Scope scope{&form_.graph, nullptr, {}, {}};
  name_values(scope, {});
  write_graph(scope, form_.graph.inputs().size(), *proto.mutable_graph());
  for (const auto& [name, type] : ir::overridable_constants(form_.graph))
    write_value(name, type, *proto.mutable_graph()->add_input());
  write_metadata(proto);
  write_variables(scope, proto);
  write_versions(proto);
  return proto;
}

}  // namespace tessera::io
