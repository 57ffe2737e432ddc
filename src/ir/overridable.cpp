#include "ir/overridable.h"

#include <unordered_map>

#include "base/error.h"
#include "ir/text.h"

namespace tessera::ir {
namespace {

// Parses the type with the parser of graphs; the type of the constant if a hostile name of a dimension makes that fail.
ValueType type_from(const std::string& text, const Tensor& constant) {
  try {
    const Graph graph = parse("graph \"type\" {\n  input %x : " + text + "\n  output %x\n}");
    return graph.value(graph.inputs()[0]).type;
  } catch (const Error&) {
    Dims dims(constant.shape().begin(), constant.shape().end());
    return ValueType::tensor(constant.dtype(), std::move(dims));
  }
}

std::unordered_map<std::string_view, ValueId> constants_by_name(const Graph& graph) {
  std::unordered_map<std::string_view, ValueId> constants;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    if (graph.is_constant(id)) constants.emplace(graph.value(id).name, id);
  }
  return constants;
}

// The part of a value's type that does not depend on shapes.
ValueType without_shape(const ValueType& type) {
  return type.is_tensor() ? ValueType::tensor(type.dtype) : type;
}

}  // namespace

void set_overridable(Graph& graph, const std::string& name, const ValueType& type) {
  graph.metadata[std::string(kOverridable) + name] = print(type);
}

OverridableConstants overridable_constants(const Graph& graph) {
  OverridableConstants found;
  const auto first = graph.metadata.lower_bound(std::string(kOverridable));
  if (first == graph.metadata.end() || !first->first.starts_with(kOverridable)) return found;
  const auto constants = constants_by_name(graph);
  for (auto entry = first; entry != graph.metadata.end() && entry->first.starts_with(kOverridable); ++entry) {
    std::string name = entry->first.substr(kOverridable.size());
    const auto constant = constants.find(name);
    if (constant != constants.end())
      found.emplace(std::move(name), type_from(entry->second, *graph.constant(constant->second)));
  }
  return found;
}

void forget_overridable(Graph& graph) {
  std::erase_if(graph.metadata, [](const auto& entry) { return entry.first.starts_with(kOverridable); });
}

Graph with_inputs(Graph graph, std::span<const std::string> names) {
  const OverridableConstants known = overridable_constants(graph);
  const auto constants = constants_by_name(graph);
  std::vector<std::pair<std::string, ValueId>> replaced;
  for (const std::string& name : names) {
    require(known.contains(name), ErrorKind::invalid_argument,
            "the model has no initialiser '{}' that may be overridden", name);
    replaced.emplace_back(name, constants.at(name));
  }
  for (const auto& [name, constant] : replaced) {
    graph.value(constant).name = graph.fresh_name("default");
    graph.replace_uses(constant, graph.add_input(name, known.find(name)->second));
    graph.metadata.erase(std::string(kOverridable) + name);
  }
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    ValueInfo& value = graph.value(ValueId{static_cast<std::int32_t>(i)});
    if (value.origin == Origin::node) value.type = without_shape(value.type);
  }
  graph.remove_dead_and_compact();
  return graph;
}

}  // namespace tessera::ir
