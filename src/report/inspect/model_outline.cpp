#include "report/inspect/model_outline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "base/edit_distance.h"
#include "base/error.h"

namespace tessera::report {
namespace {

constexpr std::size_t kMostSuggestions = 3;
// Longer names are no typing errors.
constexpr std::size_t kMostComparedBytes = 200;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& each : result) each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return result;
}

// The names nearest to the wanted one: first those that contain it, then those with the smallest edit distance.
std::vector<std::string> nearest(const std::string& wanted, const std::set<std::string>& names) {
  const std::string low = lower(wanted.substr(0, kMostComparedBytes));
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& name : names) {
    if (name.empty() || name.size() > kMostComparedBytes) continue;
    const std::string candidate = lower(name);
    if (low.size() > 1 && candidate.find(low) != std::string::npos) {
      ranked.emplace_back(0, name);
      continue;
    }
    std::size_t distance = base::edit_distance(low, candidate);
    // The wanted name may also be the end of a name with a path.
    if (candidate.size() > low.size())
      distance = std::min(
          distance, 1 + base::edit_distance(low, std::string_view(candidate).substr(candidate.size() - low.size())));
    if (distance <= std::max<std::size_t>(2, low.size() / 3)) ranked.emplace_back(distance, name);
  }
  std::ranges::sort(ranked);
  std::vector<std::string> result;
  for (std::size_t i = 0; i < std::min(kMostSuggestions, ranked.size()); ++i)
    result.push_back(fmt::format("'{}'", base::shown(ranked[i].second)));
  return result;
}

// The tensor of a Constant node; null for other nodes, and for values that are not tensors.
const Tensor* constant_of(const io::OutlineNode& node) {
  if (node.op != "Constant" || node.attributes.size() != 1 || node.outputs.size() != 1) return nullptr;
  return std::get_if<Tensor>(&node.attributes[0].value);
}

// Nodes by the name of their first output.
std::unordered_map<std::string, const ir::Node*> nodes_by_output(const ir::Graph* graph) {
  std::unordered_map<std::string, const ir::Node*> nodes;
  if (graph == nullptr) return nodes;
  for (const ir::NodeId id : graph->order()) {
    for (const ir::ValueId output : graph->node(id).outputs) {
      if (output.valid()) nodes.emplace(graph->value(output).name, &graph->node(id));
    }
  }
  return nodes;
}

const OutlineScope* definer(const OutlineScope& scope, const std::string& name) {
  for (const OutlineScope* each = &scope; each != nullptr; each = each->outer) {
    if (each->inputs.contains(name) || each->constants.contains(name) || each->producers.contains(name)) return each;
  }
  return nullptr;
}

}  // namespace

ModelOutline::ModelOutline(io::Outline outline, const ir::Graph& typed) : outline_(std::move(outline)) {
  add_scope(outline_.graph, &typed, nullptr, "");
  for (const io::OutlineFunction& function : outline_.functions) {
    std::string title = fmt::format("function {}({}) -> ({})", function.name, fmt::join(function.inputs, ", "),
                                    fmt::join(function.outputs, ", "));
    OutlineScope& scope = add_scope(function.body, nullptr, nullptr, std::move(title));
    scope.inputs.insert(function.inputs.begin(), function.inputs.end());
    scope.outputs.insert(function.outputs.begin(), function.outputs.end());
  }
  add_uses();
}

OutlineScope& ModelOutline::add_scope(const io::OutlineGraph& graph, const ir::Graph* typed, OutlineScope* outer,
                                      std::string title) {
  OutlineScope& scope = scopes_.emplace_back();
  scope.graph = &graph;
  scope.outer = outer;
  scope.title = std::move(title);
  scope.depth = outer != nullptr ? outer->depth + 1 : 0;
  for (const auto* list : {&graph.inputs, &graph.outputs, &graph.values}) {
    for (const io::OutlineValue& value : *list) scope.types.insert_or_assign(value.name, value.type);
  }
  for (const io::OutlineValue& input : graph.inputs) scope.inputs.insert(input.name);
  for (const io::OutlineValue& output : graph.outputs) scope.outputs.insert(output.name);
  for (std::size_t i = 0; typed != nullptr && i < typed->value_count(); ++i) {
    const ir::ValueInfo& value = typed->value(ir::ValueId{static_cast<std::int32_t>(i)});
    if (!value.type.is_tensor() || value.type.dtype != DType::undefined)
      scope.types.insert_or_assign(value.name, value.type);
  }
  for (const io::OutlineWeight& weight : graph.weights) {
    scope.constants.insert_or_assign(weight.name, weight.tensor);
    constants_.push_back({&scope, &weight.name, &weight.tensor});
  }
  const auto twins = nodes_by_output(typed);
  for (const io::OutlineNode& node : graph.nodes) {
    const auto first = std::ranges::find_if(node.outputs, [](const std::string& name) { return !name.empty(); });
    const auto twin = first != node.outputs.end() ? twins.find(*first) : twins.end();
    add_node(scope, node, twin != twins.end() ? twin->second : nullptr);
  }
  return scope;
}

void ModelOutline::add_node(OutlineScope& scope, const io::OutlineNode& node, const ir::Node* twin) {
  const std::size_t entry = entries_.size();
  entries_.push_back({&node, &scope});
  for (const std::string& output : node.outputs) {
    if (!output.empty()) scope.producers.insert_or_assign(output, entry);
  }
  if (const Tensor* value = constant_of(node)) {
    scope.constants.insert_or_assign(node.outputs[0], *value);
    constants_.push_back({&scope, &node.outputs[0], value});
  }
  for (const io::OutlineAttribute& attribute : node.attributes) {
    const auto* graphs = std::get_if<std::vector<io::OutlineGraphPointer>>(&attribute.value);
    if (graphs == nullptr) continue;
    const ir::Graph* typed = nullptr;
    if (twin != nullptr && graphs->size() == 1) {
      const auto found = twin->attributes.find(attribute.name);
      const auto* subgraph =
          found != twin->attributes.end() ? std::get_if<ir::SubgraphPointer>(&found->second) : nullptr;
      if (subgraph != nullptr) typed = subgraph->get();
    }
    for (const io::OutlineGraphPointer& graph : *graphs)
      add_scope(*graph, typed, &scope, fmt::format("{} of {}", attribute.name, label(entry)));
  }
}

void ModelOutline::add_uses() {
  for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
    for (const std::string& input : entries_[entry].node->inputs) {
      OutlineScope* scope = entries_[entry].scope;
      while (scope != nullptr && !input.empty()) {
        if (scope->inputs.contains(input) || scope->constants.contains(input) || scope->producers.contains(input)) {
          std::vector<std::size_t>& users = scope->users[input];
          if (users.empty() || users.back() != entry) users.push_back(entry);
          break;
        }
        scope = scope->outer;
      }
    }
  }
}

ir::ValueType ModelOutline::type_of(const OutlineScope& scope, const std::string& name) const {
  if (const Tensor* tensor = constant(scope, name)) return ir::ValueType::tensor(tensor->dtype(), tensor->shape());
  const OutlineScope* where = definer(scope, name);
  if (where == nullptr) return {};
  const auto found = where->types.find(name);
  return found != where->types.end() ? found->second : ir::ValueType();
}

const Tensor* ModelOutline::constant(const OutlineScope& scope, const std::string& name) const {
  const OutlineScope* where = definer(scope, name);
  if (where == nullptr) return nullptr;
  const auto found = where->constants.find(name);
  return found != where->constants.end() ? &found->second : nullptr;
}

std::string ModelOutline::label(std::size_t entry) const {
  const io::OutlineNode& node = *entries_[entry].node;
  return node.name.empty() ? fmt::format("#{} {}", entry + 1, base::shown(node.op))
                           : fmt::format("#{} {} '{}'", entry + 1, base::shown(node.op), base::shown(node.name));
}

std::string ModelOutline::origin(const OutlineScope& scope, const std::string& name) const {
  const OutlineScope* where = definer(scope, name);
  if (where == nullptr) return "";
  const auto producer = where->producers.find(name);
  if (producer != where->producers.end()) return label(producer->second);
  return where->constants.contains(name) ? "constant" : "input";
}

std::vector<std::string> ModelOutline::users(const OutlineScope& scope, const std::string& name) const {
  std::vector<std::string> result;
  const OutlineScope* where = definer(scope, name);
  if (where == nullptr) return result;
  if (const auto found = where->users.find(name); found != where->users.end()) {
    for (const std::size_t entry : found->second) result.push_back(label(entry));
  }
  if (where->outputs.contains(name)) result.emplace_back("output");
  return result;
}

std::vector<std::size_t> ModelOutline::find(const std::string& name) const {
  std::vector<std::size_t> found;
  std::size_t number = 0;
  if (name.starts_with('#')) std::from_chars(name.data() + 1, name.data() + name.size(), number);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const io::OutlineNode& node = *entries_[i].node;
    const bool same =
        !name.empty() && (node.name == name || std::ranges::find(node.outputs, name) != node.outputs.end());
    if (same || i + 1 == number) found.push_back(i);
  }
  if (!found.empty()) return found;
  std::set<std::string> names;
  for (const OutlineEntry& entry : entries_) {
    names.insert(entry.node->name);
    names.insert(entry.node->outputs.begin(), entry.node->outputs.end());
  }
  const std::vector<std::string> near = nearest(name, names);
  fail(ErrorKind::not_found, "no node has the name or an output '{}'; {}", base::shown(name),
       near.empty() ? "--nodes lists them all" : fmt::format("the nearest: {}", fmt::join(near, ", ")));
}

}  // namespace tessera::report
