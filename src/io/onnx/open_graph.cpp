#include "io/onnx/open_graph.h"

#include "base/error.h"
#include "ops/infer.h"
#include "ops/op_table.h"

namespace tessera::io {
namespace {

// The type to go on with, given what the file declares and what inference found. A contradiction at an output of the
// graph is kept for the final inference to report; elsewhere declarations are mere hints and inference wins.
ir::ValueType merge(const ir::ValueType& declared, const ir::ValueType& found, bool is_output) {
  if (found.is_tensor() && found.dtype == DType::undefined) return declared;
  if (declared.is_tensor() && declared.dtype == DType::undefined) return found;
  const ir::ValueType& preferred = is_output ? declared : found;
  if (declared.kind != found.kind || !found.is_tensor()) return preferred;
  if (declared.dtype != found.dtype) return preferred;
  if (!declared.dims || !found.dims) return found.dims ? found : declared;
  if (declared.dims->size() != found.dims->size()) return preferred;
  ir::ValueType result = found;
  for (std::size_t i = 0; i < found.dims->size(); ++i) {
    const ir::Dim& wanted = (*declared.dims)[i];
    ir::Dim& dim = (*result.dims)[i];
    if (!dim.may_equal(wanted)) {
      if (is_output) return declared;
    } else if (dim.is_unknown() || (dim.is_symbol() && wanted.is_known())) {
      dim = wanted;
    }
  }
  return result;
}

}  // namespace

std::string OpenGraph::unique_name(const std::string& wanted) {
  if (reserve(wanted)) return wanted;
  for (;;) {
    std::string name = wanted + "_" + std::to_string(next_suffix_++);
    if (reserve(name)) return name;
  }
}

void OpenGraph::declare(const std::string& name, ir::ValueType type, bool is_output) {
  declared_.insert_or_assign(name, Declared{std::move(type), is_output});
}

ir::ValueId OpenGraph::add_value(const std::string& name) {
  const auto found = declared_.find(name);
  if (found == declared_.end()) return graph.add_value(name);
  const ir::ValueId id = graph.add_value(name, found->second.type);
  if (found->second.is_output) outputs_.insert(id.index);
  return id;
}

ir::ValueId OpenGraph::add_constant(Tensor tensor, const std::string& hint) {
  return graph.add_constant(std::move(tensor), unique_name(hint));
}

void OpenGraph::add_node(ir::Node node) {
  const ir::NodeId id = graph.add_node(std::move(node));
  const ir::Node& added = graph.node(id);
  if (ops::find_op(added.op) == nullptr) return;
  std::vector<ir::ValueType> types;
  try {
    types = ops::infer_node(graph, added, [this](ir::ValueId value) { return graph.constant(value); });
  } catch (const Error&) {
    return;
  }
  for (std::size_t i = 0; i < added.outputs.size(); ++i) {
    const ir::ValueId output = added.outputs[i];
    if (output.valid())
      graph.value(output).type = merge(graph.value(output).type, types[i], outputs_.contains(output.index));
  }
}

ir::ValueId OpenGraph::add_op(std::string op, std::vector<ir::ValueId> inputs, ir::Attributes attributes,
                              const std::string& hint) {
  const std::string name = unique_name(hint);
  const ir::ValueId output = graph.add_value(name);
  add_node({std::move(op), name, std::move(inputs), {output}, std::move(attributes), 0});
  return output;
}

}  // namespace tessera::io
