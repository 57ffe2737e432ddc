#include "ir/verify.h"

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"

namespace tessera::ir {
namespace {

// A node to be named if a message is needed.
struct Place {
  const Graph& graph;
  NodeId node;
};

}  // namespace
}  // namespace tessera::ir

template <>
struct fmt::formatter<tessera::ir::Place> : fmt::formatter<std::string> {
  template <typename Context>
  auto format(const tessera::ir::Place& place, Context& context) const {
    return fmt::formatter<std::string>::format(describe(place.graph, place.node), context);
  }
};

namespace tessera::ir {
namespace {

template <typename... Args>
void ensure(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  require(condition, ErrorKind::invalid_model, format, std::forward<Args>(args)...);
}

bool is_complete(const ValueType& type, int depth = 0) {
  if (type.is_tensor()) return type.element == nullptr;
  return type.element != nullptr && depth < kMaxSubgraphDepth && is_complete(*type.element, depth + 1);
}

// True unless both are known and differ.
bool may_be_equal(const ValueType& a, const ValueType& b) {
  if (a.is_tensor() && b.is_tensor() && (a.dtype == DType::undefined || b.dtype == DType::undefined)) return true;
  if (a.kind != b.kind || a.dtype != b.dtype) return false;
  if (!a.dims || !b.dims) return true;
  return std::equal(a.dims->begin(), a.dims->end(), b.dims->begin(), b.dims->end(),
                    [](const Dim& x, const Dim& y) { return x.may_equal(y); });
}

class Verifier {
 public:
  Verifier(const Graph& graph, int depth, std::unordered_set<const Graph*>& seen)
      : graph_(graph), depth_(depth), seen_(seen), declared_(graph.value_count(), false) {}

  void run() {
    ensure(depth_ <= kMaxSubgraphDepth, "subgraphs are nested deeper than {}", kMaxSubgraphDepth);
    check_inputs();
    check_variables();
    check_order();
    check_values();
    for (std::size_t i = 0; i < graph_.order().size(); ++i) check_node(graph_.order()[i], static_cast<std::int64_t>(i));
    for (ValueId id : graph_.outputs()) check_use(id, [] { return "a graph output"; });
    check_updates();
  }

 private:
  Place place(NodeId id) const { return {graph_, id}; }
  bool in_range(ValueId id) const { return id.valid() && static_cast<std::size_t>(id.index) < graph_.value_count(); }

  void declare(ValueId id, Origin origin, std::string_view what) {
    ensure(in_range(id), "{} has the handle {}, but there are {} values", what, id.index, graph_.value_count());
    ensure(graph_.value(id).origin == origin, "{} '{}' does not have the origin it should", what,
           graph_.value(id).name);
    ensure(!declared_[static_cast<std::size_t>(id.index)], "{} '{}' is listed twice", what, graph_.value(id).name);
    declared_[static_cast<std::size_t>(id.index)] = true;
  }

  void check_inputs() {
    for (ValueId id : graph_.inputs()) declare(id, Origin::input, "graph input");
  }

  void check_variables() {
    std::unordered_set<std::string_view> names;
    for (const Variable& variable : graph_.variables()) {
      declare(variable.read, Origin::variable, "variable");
      ensure(names.insert(variable.name).second, "two variables are named '{}'", variable.name);
      check_tensor(variable.initial, variable.read, "variable");
    }
  }

  void check_tensor(const Tensor& tensor, ValueId id, std::string_view what) const {
    const ValueInfo& info = graph_.value(id);
    ensure(tensor.has_value(), "{} '{}' has no tensor", what, info.name);
    const ValueType actual = ValueType::tensor(tensor.dtype(), tensor.shape());
    if (!(info.type == actual))
      fail(ErrorKind::invalid_model, "{} '{}' is declared as {}, but holds {}", what, info.name, to_string(info.type),
           to_string(actual));
  }

  // Checks values: unique names, complete types, and an origin that contains what it claims.
  void check_values() {
    std::unordered_set<std::string_view> names;
    for (std::size_t i = 0; i < graph_.value_count(); ++i) {
      const ValueId id{static_cast<std::int32_t>(i)};
      const ValueInfo& info = graph_.value(id);
      ensure(names.insert(info.name).second, "two values are named '{}'", info.name);
      ensure(is_complete(info.type), "the type of value '{}' lacks its element type", info.name);
      const Tensor* tensor = graph_.constant(id);
      ensure((tensor != nullptr) == (info.origin == Origin::constant), "value '{}' and its constant disagree",
             info.name);
      if (tensor != nullptr) check_tensor(*tensor, id, "constant");
      if (info.producer.valid()) check_producer(id, info);
    }
  }

  void check_producer(ValueId id, const ValueInfo& info) const {
    ensure(info.origin == Origin::node, "value '{}' has a producer, but does not come from a node", info.name);
    ensure(is_live(info.producer), "the producer of value '{}' is not in the graph", info.name);
    const std::vector<ValueId>& outputs = graph_.node(info.producer).outputs;
    const bool linked = info.output_index >= 0 && static_cast<std::size_t>(info.output_index) < outputs.size() &&
                        outputs[static_cast<std::size_t>(info.output_index)] == id;
    ensure(linked, "value '{}' is not output {} of {}", info.name, info.output_index, place(info.producer));
  }

  bool is_live(NodeId id) const {
    return id.valid() && static_cast<std::size_t>(id.index) < position_.size() &&
           position_[static_cast<std::size_t>(id.index)] >= 0;
  }

  void check_order() {
    for (std::size_t i = 0; i < graph_.order().size(); ++i) {
      const NodeId id = graph_.order()[i];
      if (static_cast<std::size_t>(id.index) >= position_.size())
        position_.resize(static_cast<std::size_t>(id.index) + 1, -1);
      ensure(!is_live(id), "{} stands twice in the order", place(id));
      position_[static_cast<std::size_t>(id.index)] = static_cast<std::int64_t>(i);
    }
  }

  void check_node(NodeId id, std::int64_t position) {
    const Node& node = graph_.node(id);
    ensure(!node.op.empty(), "{} has no operator", place(id));
    ensure(node.captures >= 0 && static_cast<std::size_t>(node.captures) <= node.inputs.size(),
           "{} claims {} captures of {} inputs", place(id), node.captures, node.inputs.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].valid() || i >= node.formal_inputs()) check_input(id, i, position);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) check_output(id, i);
    }
    for (const auto& [name, subgraph] : subgraphs_of(node)) check_subgraph(id, name, subgraph);
  }

  void check_input(NodeId id, std::size_t i, std::int64_t position) const {
    const ValueId input = graph_.node(id).inputs[i];
    check_use(input, [&] { return fmt::format("an input of {}", place(id)); });
    const NodeId producer = graph_.value(input).producer;
    ensure(!producer.valid() || position_[static_cast<std::size_t>(producer.index)] < position,
           "{} uses value '{}' before {} computes it", place(id), graph_.value(input).name, place(producer));
  }

  void check_output(NodeId id, std::size_t i) const {
    const ValueId output = graph_.node(id).outputs[i];
    ensure(in_range(output), "output {} of {} has the handle {}, but there are {} values", i, place(id), output.index,
           graph_.value_count());
    const ValueInfo& info = graph_.value(output);
    ensure(info.origin == Origin::node && info.producer == id && info.output_index == static_cast<std::int32_t>(i),
           "value '{}' is output {} of {}, but has another source", info.name, i, place(id));
  }

  // `use` returns the words for a message.
  template <typename Use>
  void check_use(ValueId id, const Use& use) const {
    if (!in_range(id))
      fail(ErrorKind::invalid_model, "{} has the handle {}, but there are {} values", use(), id.index,
           graph_.value_count());
    const ValueInfo& info = graph_.value(id);
    const bool sourced = info.origin == Origin::node
                             ? info.producer.valid()
                             : info.origin == Origin::constant || declared_[static_cast<std::size_t>(id.index)];
    if (!sourced)
      fail(ErrorKind::invalid_model, "value '{}' is {}, but nothing computes or holds it", info.name, use());
  }

  void check_subgraph(NodeId id, const std::string& name, const SubgraphPointer& subgraph) {
    ensure(subgraph != nullptr, "attribute '{}' of {} has no graph", name, place(id));
    const std::int32_t captures = graph_.node(id).captures;
    ensure(subgraph->inputs().size() >= static_cast<std::size_t>(captures),
           "subgraph '{}' of {} has {} inputs for {} captured values", name, place(id), subgraph->inputs().size(),
           captures);
    if (seen_.contains(subgraph.get())) return;  // shared: checked, at a depth that was fine
    try {
      Verifier(*subgraph, depth_ + 1, seen_).run();
    } catch (Error& error) {
      error.add_context(fmt::format("subgraph '{}' of {}", name, place(id)));
      throw;
    }
    seen_.insert(subgraph.get());
  }

  void check_updates() const {
    for (const Variable& variable : graph_.variables()) {
      if (variable.update == ValueId{}) continue;
      check_use(variable.update, [&] { return fmt::format("the update of variable '{}'", variable.name); });
      const ValueType& type = graph_.value(variable.read).type;
      const ValueType& updated = graph_.value(variable.update).type;
      ensure(may_be_equal(type, updated), "variable '{}' is {}, but its update is {}", variable.name, to_string(type),
             to_string(updated));
    }
  }

  const Graph& graph_;
  int depth_;
  std::unordered_set<const Graph*>& seen_;
  std::vector<bool> declared_;          // values that stand among the inputs or variables
  std::vector<std::int64_t> position_;  // of each node in the order; -1: removed
};

// --- unique names ---

// "name", or "name_2", "name_3" … as far as needed; `next` remembers where to go on for each name.
std::string unused_name(const std::string& name, const std::unordered_set<std::string>& taken,
                        std::unordered_map<std::string, std::int64_t>& next) {
  std::int64_t& number = next.try_emplace(name, 2).first->second;
  std::string candidate;
  do {
    candidate = name + "_" + std::to_string(number++);
  } while (taken.contains(candidate));
  return candidate;
}

void rename_duplicates(Graph& graph) {
  std::vector<ValueId> by_importance = graph.inputs();
  for (const Variable& variable : graph.variables()) by_importance.push_back(variable.read);
  by_importance.insert(by_importance.end(), graph.outputs().begin(), graph.outputs().end());
  std::unordered_set<std::string> taken;
  std::vector<bool> keeps(graph.value_count(), false);
  for (ValueId id : by_importance) {
    const auto i = static_cast<std::size_t>(id.index);
    if (!keeps[i]) keeps[i] = taken.insert(graph.value(id).name).second;
  }
  std::vector<ValueId> duplicates;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    if (!keeps[i] && !taken.insert(graph.value(id).name).second) duplicates.push_back(id);
  }
  std::unordered_map<std::string, std::int64_t> next;
  for (ValueId id : duplicates) {
    std::string& name = graph.value(id).name;
    name = unused_name(name, taken, next);
    taken.insert(name);
  }
}

bool names_are_unique(const Graph& graph, int depth) {
  ensure(depth <= kMaxSubgraphDepth, "subgraphs are nested deeper than {}", kMaxSubgraphDepth);
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    if (!names.insert(graph.value(ValueId{static_cast<std::int32_t>(i)}).name).second) return false;
  }
  for (NodeId id : graph.order()) {
    for (const auto& [name, subgraph] : subgraphs_of(graph.node(id))) {
      if (subgraph != nullptr && !names_are_unique(*subgraph, depth + 1)) return false;
    }
  }
  return true;
}

}  // namespace

void verify(const Graph& graph) {
  std::unordered_set<const Graph*> seen;
  Verifier(graph, 0, seen).run();
}

void make_names_unique(Graph& graph) {
  if (names_are_unique(graph, 0)) return;
  rename_duplicates(graph);
  for (NodeId id : graph.order()) {
    for (auto& [name, attribute] : graph.node(id).attributes) {
      auto* subgraph = std::get_if<SubgraphPointer>(&attribute);
      if (subgraph == nullptr || *subgraph == nullptr || names_are_unique(**subgraph, 0)) continue;
      auto renamed = std::make_shared<Graph>(**subgraph);
      make_names_unique(*renamed);
      *subgraph = std::move(renamed);
    }
  }
}

}  // namespace tessera::ir
