#include "ir/graph.h"

#include <algorithm>
#include <charconv>
#include <queue>
#include <ranges>
#include <utility>

#include "base/assert.h"
#include "base/error.h"

namespace tessera::ir {

std::string_view to_string(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::integer:
      return "integer";
    case AttributeKind::real:
      return "float";
    case AttributeKind::text:
      return "string";
    case AttributeKind::tensor:
      return "tensor";
    case AttributeKind::graph:
      return "graph";
    case AttributeKind::type:
      return "type";
    case AttributeKind::integers:
      return "integers";
    case AttributeKind::reals:
      return "floats";
    case AttributeKind::texts:
      return "strings";
    case AttributeKind::tensors:
      return "tensors";
  }
  return "unknown";
}

namespace {

// The number after the last underscore, or -1: "conv_12" gives 12.
std::int64_t trailing_number(std::string_view name) {
  constexpr std::size_t kMostDigits = 17;
  const std::size_t underscore = name.rfind('_');
  if (underscore == std::string_view::npos || name.size() - underscore - 1 > kMostDigits) return -1;
  std::int64_t number = -1;
  const std::from_chars_result result =
      std::from_chars(name.data() + underscore + 1, name.data() + name.size(), number);
  return result.ec == std::errc{} && result.ptr == name.data() + name.size() ? number : -1;
}

}  // namespace

ValueId Graph::new_value(ValueInfo info) {
  next_name_ = std::max(next_name_, trailing_number(info.name) + 1);
  values_.push_back(std::move(info));
  return ValueId{static_cast<std::int32_t>(values_.size() - 1)};
}

std::string Graph::fresh_name(std::string_view prefix) {
  // Generated names have a number above that of every name given so far (see new_value).
  return std::string(prefix) + "_" + std::to_string(next_name_++);
}

ValueId Graph::add_input(std::string name, ValueType type) {
  const ValueId id = new_value({std::move(name), std::move(type), Origin::input, {}, 0});
  inputs_.push_back(id);
  return id;
}

ValueId Graph::add_constant(Tensor tensor, std::string name) {
  if (name.empty()) name = fresh_name("constant");
  const ValueId id =
      new_value({std::move(name), ValueType::tensor(tensor.dtype(), tensor.shape()), Origin::constant, {}, 0});
  constants_.emplace(id.index, std::move(tensor));
  return id;
}

ValueId Graph::add_variable(std::string name, Tensor initial) {
  const ValueId id = new_value({name, ValueType::tensor(initial.dtype(), initial.shape()), Origin::variable, {}, 0});
  variables_.push_back({std::move(name), std::move(initial), id, {}});
  return id;
}

void Graph::set_variable_update(std::string_view variable, ValueId update) {
  const auto found =
      std::find_if(variables_.begin(), variables_.end(), [&](const Variable& v) { return v.name == variable; });
  require(found != variables_.end(), ErrorKind::invalid_argument, "the graph has no variable '{}'", variable);
  found->update = update;
}

ValueId Graph::add_value(std::string name, ValueType type) {
  if (name.empty()) name = fresh_name("value");
  return new_value({std::move(name), std::move(type), Origin::node, {}, 0});
}

void Graph::claim_outputs(NodeId id) {
  const Node& added = node(id);
  for (std::size_t i = 0; i < added.outputs.size(); ++i) {
    if (!added.outputs[i].valid()) continue;
    ValueInfo& info = value(added.outputs[i]);
    TESSERA_ASSERT(info.origin == Origin::node && !info.producer.valid(), "a value has two producers");
    info.producer = id;
    info.output_index = static_cast<std::int32_t>(i);
  }
}

NodeId Graph::add_node(Node node) {
  nodes_.push_back(std::move(node));
  const NodeId id{static_cast<std::int32_t>(nodes_.size() - 1)};
  claim_outputs(id);
  order_.push_back(id);
  return id;
}

void Graph::want_output(NodeId id, std::size_t index) {
  const ValueId output = add_value("");
  value(output).producer = id;
  value(output).output_index = static_cast<std::int32_t>(index);
  std::vector<ValueId>& outputs = node(id).outputs;
  outputs.resize(std::max(outputs.size(), index + 1));
  TESSERA_ASSERT(!outputs[index].valid(), "an output that is there is added");
  outputs[index] = output;
}

ValueId Graph::add_op(std::string op, std::vector<ValueId> inputs, Attributes attributes, std::string output_name) {
  const ValueId output = add_value(std::move(output_name));
  add_node({std::move(op), "", std::move(inputs), {output}, std::move(attributes), 0});
  return output;
}

void Graph::release_outputs(NodeId id) {
  for (ValueId output : node(id).outputs) {
    if (output.valid()) value(output).producer = {};
  }
}

void Graph::replace_node(NodeId id, Node replacement) {
  release_outputs(id);
  node(id) = std::move(replacement);
  claim_outputs(id);
}

void Graph::remove_node(NodeId id) {
  release_outputs(id);
  order_.erase(std::find(order_.begin(), order_.end(), id));
}

void Graph::replace_uses(ValueId from, ValueId to) {
  TESSERA_ASSERT(from.valid() && to.valid(), "uses of an absent value cannot be replaced");
  for (NodeId id : order_) std::replace(node(id).inputs.begin(), node(id).inputs.end(), from, to);
  std::replace(outputs_.begin(), outputs_.end(), from, to);
  for (Variable& variable : variables_) {
    if (variable.update == from) variable.update = to;
  }
}

void Graph::replace_uses(std::span<const ValueId> replacements) {
  std::vector<ValueId> known(replacements.begin(), replacements.end());
  const auto next = [&](ValueId id) {
    return id.valid() && static_cast<std::size_t>(id.index) < known.size() ? known[static_cast<std::size_t>(id.index)]
                                                                           : ValueId{};
  };
  const auto replace = [&](ValueId& id) {
    ValueId last = id;
    while (next(last).valid()) last = next(last);
    // Path compression: every value on the way refers directly to the last one from now on, so that long chains are
    // walked once.
    for (ValueId passed = id; passed != last;)
      passed = std::exchange(known[static_cast<std::size_t>(passed.index)], last);
    id = last;
  };
  for (NodeId id : order_) std::for_each(node(id).inputs.begin(), node(id).inputs.end(), replace);
  std::for_each(outputs_.begin(), outputs_.end(), replace);
  for (Variable& variable : variables_) replace(variable.update);
}

void Graph::become_constant(ValueId id, Tensor tensor) {
  ValueInfo& info = value(id);
  if (info.producer.valid()) node(info.producer).outputs[static_cast<std::size_t>(info.output_index)] = {};
  info.type = ValueType::tensor(tensor.dtype(), tensor.shape());
  info.origin = Origin::constant;
  info.producer = {};
  constants_[id.index] = std::move(tensor);
}

namespace {

// Some nodes wait for inputs (`missing` counts them). Nodes behind a cycle wait too, so walk from one of them towards
// its inputs until a node comes up twice: that one is on a cycle.
NodeId find_node_on_cycle(const Graph& graph, const std::vector<std::int32_t>& missing) {
  const auto waits = [&](NodeId id) { return missing[static_cast<std::size_t>(id.index)] > 0; };
  NodeId current = *std::find_if(graph.order().begin(), graph.order().end(), waits);
  std::vector<bool> visited(missing.size(), false);
  while (!visited[static_cast<std::size_t>(current.index)]) {
    visited[static_cast<std::size_t>(current.index)] = true;
    const std::vector<ValueId>& inputs = graph.node(current).inputs;
    const auto next = std::find_if(inputs.begin(), inputs.end(), [&](ValueId input) {
      return input.valid() && graph.value(input).producer.valid() && waits(graph.value(input).producer);
    });
    TESSERA_ASSERT(next != inputs.end(), "a node waits for a value whose producer is not in the order");
    current = graph.value(*next).producer;
  }
  return current;
}

}  // namespace

void Graph::sort_topologically() {
  // Kahn's algorithm, taking ready nodes by their old position, so that a sorted graph stays as it is.
  std::vector<std::int32_t> missing(nodes_.size(), 0);
  std::vector<std::size_t> position(nodes_.size(), 0);
  std::vector<std::vector<NodeId>> uses = compute_uses();
  std::priority_queue<std::pair<std::size_t, std::int32_t>, std::vector<std::pair<std::size_t, std::int32_t>>,
                      std::greater<>>
      ready;
  for (std::size_t i = 0; i < order_.size(); ++i) position[static_cast<std::size_t>(order_[i].index)] = i;
  for (NodeId id : order_) {
    for (ValueId input : node(id).inputs) {
      if (input.valid() && value(input).producer.valid()) ++missing[static_cast<std::size_t>(id.index)];
    }
    if (missing[static_cast<std::size_t>(id.index)] == 0)
      ready.push({position[static_cast<std::size_t>(id.index)], id.index});
  }
  std::vector<NodeId> sorted;
  sorted.reserve(order_.size());
  while (!ready.empty()) {
    const NodeId id{ready.top().second};
    ready.pop();
    sorted.push_back(id);
    for (ValueId output : node(id).outputs) {
      if (!output.valid()) continue;
      for (NodeId user : uses[static_cast<std::size_t>(output.index)]) {
        if (--missing[static_cast<std::size_t>(user.index)] == 0)
          ready.push({position[static_cast<std::size_t>(user.index)], user.index});
      }
    }
  }
  if (sorted.size() != order_.size())
    fail(ErrorKind::invalid_model, "the graph has a cycle through {}",
         describe(*this, find_node_on_cycle(*this, missing)));
  order_ = std::move(sorted);
}

void Graph::remove_dead_and_compact() {
  std::vector<bool> live(values_.size(), false);
  for (ValueId id : inputs_) live[static_cast<std::size_t>(id.index)] = true;
  for (ValueId id : outputs_) live[static_cast<std::size_t>(id.index)] = true;
  for (const Variable& variable : variables_) {
    live[static_cast<std::size_t>(variable.read.index)] = true;
    if (variable.update.valid()) live[static_cast<std::size_t>(variable.update.index)] = true;
  }
  std::vector<NodeId> kept;
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const Node& current = node(*it);
    const bool used = std::any_of(current.outputs.begin(), current.outputs.end(),
                                  [&](ValueId id) { return id.valid() && live[static_cast<std::size_t>(id.index)]; });
    if (!used) continue;
    kept.push_back(*it);
    for (ValueId input : current.inputs) {
      if (input.valid()) live[static_cast<std::size_t>(input.index)] = true;
    }
  }
  std::reverse(kept.begin(), kept.end());
  // Nothing is dead, and handles are in order.
  const auto in_place = [&](std::size_t i) { return kept[i].index == static_cast<std::int32_t>(i); };
  if (kept.size() == nodes_.size() && std::ranges::find(live, false) == live.end() &&
      std::ranges::all_of(std::views::iota(std::size_t{0}, kept.size()), in_place))
    return;

  std::vector<ValueId> renamed(values_.size());
  std::vector<ValueInfo> values;
  std::map<std::int32_t, Tensor> constants;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!live[i]) continue;
    renamed[i] = ValueId{static_cast<std::int32_t>(values.size())};
    values.push_back(std::move(values_[i]));
    if (auto found = constants_.find(static_cast<std::int32_t>(i)); found != constants_.end()) {
      constants.emplace(renamed[i].index, std::move(found->second));
    }
  }
  auto rename = [&](ValueId& id) {
    if (id.valid()) id = renamed[static_cast<std::size_t>(id.index)];
  };
  std::vector<Node> nodes;
  std::vector<NodeId> order;
  for (NodeId old : kept) {
    const NodeId id{static_cast<std::int32_t>(nodes.size())};
    nodes.push_back(std::move(node(old)));
    order.push_back(id);
    for (ValueId& input : nodes.back().inputs) rename(input);
    for (ValueId& output : nodes.back().outputs) {
      rename(output);
      if (output.valid()) values[static_cast<std::size_t>(output.index)].producer = id;
    }
  }
  for (ValueId& id : inputs_) rename(id);
  for (ValueId& id : outputs_) rename(id);
  for (Variable& variable : variables_) {
    rename(variable.read);
    rename(variable.update);
  }
  nodes_ = std::move(nodes);
  values_ = std::move(values);
  order_ = std::move(order);
  constants_ = std::move(constants);
}

const Tensor* Graph::constant(ValueId id) const {
  const auto found = constants_.find(id.index);
  return found == constants_.end() ? nullptr : &found->second;
}

std::vector<std::vector<NodeId>> Graph::compute_uses() const {
  std::vector<std::vector<NodeId>> uses(values_.size());
  for (NodeId id : order_) {
    for (ValueId input : node(id).inputs) {
      if (input.valid()) uses[static_cast<std::size_t>(input.index)].push_back(id);
    }
  }
  return uses;
}

bool Graph::is_output(ValueId id) const {
  return std::find(outputs_.begin(), outputs_.end(), id) != outputs_.end();
}

ValueId Graph::find_value(std::string_view name) const {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].name == name) return ValueId{static_cast<std::int32_t>(i)};
  }
  return {};
}

std::int64_t Graph::structure_bytes() const {
  constexpr std::int64_t kMapNode = 48;  // of std::map, beside its element
  const auto size = [](const auto& vector) { return static_cast<std::int64_t>(vector.capacity() * sizeof(vector[0])); };
  std::int64_t bytes = size(nodes_) + size(values_) + size(order_) + size(inputs_) + size(outputs_);
  for (const Node& node : nodes_) {
    bytes += heap_bytes(node.op) + heap_bytes(node.name) + size(node.inputs) + size(node.outputs);
    bytes += static_cast<std::int64_t>(node.attributes.size() * sizeof(Attributes::value_type)) +
             kMapNode * static_cast<std::int64_t>(node.attributes.size());
    for (const auto& [name, attribute] : node.attributes) {
      bytes += heap_bytes(name);
      if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute)) bytes += size(*integers);
      if (const auto* reals = std::get_if<std::vector<float>>(&attribute)) bytes += size(*reals);
      if (const auto* text = std::get_if<std::string>(&attribute)) bytes += heap_bytes(*text);
    }
  }
  for (const ValueInfo& value : values_) bytes += heap_bytes(value.name) + heap_bytes(value.type);
  for (const auto& [id, constant] : constants_)
    bytes += kMapNode + static_cast<std::int64_t>(sizeof(Tensor)) + size(constant.shape());
  return bytes;
}

std::vector<std::pair<std::string, SubgraphPointer>> subgraphs_of(const Node& node) {
  std::vector<std::pair<std::string, SubgraphPointer>> result;
  for (const auto& [name, attribute] : node.attributes) {
    if (const auto* subgraph = std::get_if<SubgraphPointer>(&attribute)) result.emplace_back(name, *subgraph);
  }
  return result;
}

std::string describe(const Node& node) {
  const std::string op = base::shown(node.op);
  return node.name.empty() ? fmt::format("a {} node", op) : fmt::format("node '{}' ({})", base::shown(node.name), op);
}

std::string describe(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return node.name.empty() ? fmt::format("node #{} ({})", id.index, base::shown(node.op)) : describe(node);
}

}  // namespace tessera::ir
