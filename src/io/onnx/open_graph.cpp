#include "io/onnx/open_graph.h"

#include <algorithm>

#include "base/error.h"
#include "ir/constant_role.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"

namespace tessera::io {
namespace {

// Whether no shape of the value agrees with both. A declared number where inference finds a free dimension also counts,
// because it holds for one size at best.
bool contradict(const ir::ValueType& declared, const ir::ValueType& found) {
  if (!declared.is_tensor() || !found.is_tensor() || !declared.dims || !found.dims) return false;
  if (declared.dims->size() != found.dims->size()) return true;
  return !std::equal(declared.dims->begin(), declared.dims->end(), found.dims->begin(),
                     [](const ir::Dim& wanted, const ir::Dim& dim) {
                       return dim.may_equal(wanted) && !(dim.is_symbol() && wanted.is_known());
                     });
}

// The type of a value in a package. A contradiction at an output of the graph is left to the final inference.
ir::ValueType merge(const ir::ValueType& declared, const ir::ValueType& found, bool is_output) {
  const ir::ValueType& preferred = is_output ? declared : found;
  if (declared.kind != found.kind || !found.is_tensor() || declared.dtype != found.dtype) return preferred;
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

void FalseShapes::add(const std::string& value, const ir::ValueType& declared, const ir::ValueType& found) {
  constexpr std::size_t kKept = 100;
  if (++count_ > kKept) return;
  kept_.push_back(fmt::format("value '{}' is declared as {}, but {} is computed", base::shown(value),
                              base::shown(ir::to_string(declared)), base::shown(ir::to_string(found))));
}

std::vector<std::string> FalseShapes::sentences() const {
  std::vector<std::string> sentences = kept_;
  if (count_ > kept_.size()) sentences.push_back(fmt::format("and {} more", count_ - kept_.size()));
  return sentences;
}

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
  const ir::ValueId id = graph.add_value(name);
  const auto found = declared_.find(name);
  if (found == declared_.end()) return id;
  declared_of_.emplace(id.index, &found->second);
  graph.value(id).type = found->second.type;  // until its producer is known
  return id;
}

ir::ValueType OpenGraph::declared(ir::ValueId value) const {
  const auto found = declared_of_.find(value.index);
  if (found == declared_of_.end() || contradict(found->second->type, graph.value(value).type)) return {};
  return found->second->type;
}

std::optional<std::int64_t> OpenGraph::rank(ir::ValueId value) const {
  const ir::ValueType* type = &graph.value(value).type;
  const auto declared = declared_of_.find(value.index);
  if (type->is_tensor() && !type->dims && declared != declared_of_.end()) type = &declared->second->type;
  if (!type->is_tensor() || !type->dims) return std::nullopt;
  return static_cast<std::int64_t>(type->dims->size());
}

void OpenGraph::settle(ir::ValueId value, const ir::ValueType& found) {
  ir::ValueType& type = graph.value(value).type;
  const auto entry = declared_of_.find(value.index);
  if (says_nothing(found)) return;
  if (entry == declared_of_.end() || says_nothing(entry->second->type)) {
    type = found;
    return;
  }
  const auto& [declared, is_output] = *entry->second;
  if (false_shapes_ == nullptr) {
    type = merge(declared, found, is_output);
    return;
  }
  // An output of another element type or kind is left to the final inference to report.
  if (is_output && (declared.kind != found.kind || declared.dtype != found.dtype)) return;
  if (contradict(declared, found)) false_shapes_->add(graph.value(value).name, declared, found);
  type = found;
}

ir::ValueId OpenGraph::add_constant(Tensor tensor, const std::string& hint) {
  const bool is_literal = is_float(tensor.dtype());
  const ir::ValueId id = graph.add_constant(std::move(tensor), unique_name(hint));
  if (is_literal) ir::set_role(graph, id, ir::ConstantRole::literal);
  return id;
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
    if (added.outputs[i].valid()) settle(added.outputs[i], types[i]);
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
