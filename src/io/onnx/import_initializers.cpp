// The importer's initializers: constants, variables, and values that callers provide or may override.
#include "base/error.h"
#include "io/onnx/importer.h"
#include "ir/overridable.h"

namespace tessera::io {

using tessera_onnx::GraphProto;

// Before IR version 4 every initializer had to be a graph input too, so being one means nothing.
void Importer::note_overridable(const tessera_onnx::ValueInfoProto& input) {
  constexpr std::int64_t kFirstIrVersion = 4;
  if (model_.ir_version() < kFirstIrVersion || variables_.contains(input.name())) return;
  if (input.type().value_case() != tessera_onnx::TypeProto::kTensorType) return;
  try {
    overridable_.emplace(input.name(), to_value_type(input.type()));
  } catch (const Error&) {  // of a type that no caller could give a value of: the default stays
  }
}

// Whether a value of the model's own graph is an initializer that callers may override.
bool Importer::may_be_overridden(const Scope& scope, ir::ValueId id) const {
  return scope.depth == 0 && scope.graph->graph.is_constant(id) &&
         overridable_.contains(scope.graph->graph.value(id).name);
}

void Importer::describe_overridable(Scope& scope) const {
  for (const auto& [name, type] : overridable_) {
    if (!scope.graph->was_read(scope.values.at(name))) ir::set_overridable(scope.graph->graph, name, type);
  }
}

// The value of initializer `index` of a graph: that of the caller, or that in the file.
Tensor Importer::initial_value(const tessera_onnx::TensorProto& initializer, std::size_t index, bool is_subgraph) {
  if (is_subgraph) return tensors_.read(initializer);
  const auto given = options_.initializers.find(initializer.name());
  if (given == options_.initializers.end()) return tensors_.read(initializer, raw_data_[index]);
  const Tensor& tensor = given->second;
  const Shape shape(initializer.dims().begin(), initializer.dims().end());
  const auto dtype = static_cast<DType>(initializer.data_type());
  require(tensor.dtype() == dtype && tensor.shape() == shape, ErrorKind::invalid_argument,
          "the value given for initializer '{}' is {}{}, expected {}{}", shown(initializer.name()),
          name_of(tensor.dtype()), to_string(tensor.shape()), name_of(dtype), to_string(shape));
  return tensor;
}

void Importer::add_initializers(const GraphProto& proto, Scope& scope, bool is_subgraph) {
  ir::Graph& graph = scope.graph->graph;
  for (int i = 0; i < proto.initializer_size(); ++i) {
    const auto& initializer = proto.initializer(i);
    const std::string& name = initializer.name();
    if (scope.values.contains(name)) continue;  // a subgraph's input: what is passed counts
    Tensor tensor = initial_value(initializer, static_cast<std::size_t>(i), is_subgraph);
    const auto variable = is_subgraph ? variables_.end() : variables_.find(name);
    if (variable == variables_.end()) {
      scope.values[name] = graph.add_constant(std::move(tensor), name);
    } else {
      scope.values[name] = graph.add_variable(variable->second, std::move(tensor));
      graph.value(scope.values[name]).name = name;
    }
  }
  for (const auto& initializer : proto.sparse_initializer()) {
    const std::string& name = initializer.values().name();
    if (scope.values.contains(name)) continue;
    scope.values[name] = graph.add_constant(tensors_.read_sparse(initializer), name);
  }
  mark_initializers(proto, scope);
}

}  // namespace tessera::io
