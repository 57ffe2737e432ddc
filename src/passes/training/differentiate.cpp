#include "passes/training/differentiate.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "ops/quantised/quantisation.h"
#include "passes/pass.h"
#include "passes/simplify/decompose_composites.h"
#include "passes/training/differentiate_control_flow.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

constexpr std::string_view kGradient = "ai.onnx.preview.training::Gradient";

// A set of the values of one graph.
class ValueSet {
 public:
  bool contains(ValueId id) const {
    return id.valid() && static_cast<std::size_t>(id.index) < members_.size() &&
           members_[static_cast<std::size_t>(id.index)];
  }
  void insert(ValueId id) {
    if (!id.valid()) return;
    if (static_cast<std::size_t>(id.index) >= members_.size()) members_.resize(static_cast<std::size_t>(id.index) + 1);
    members_[static_cast<std::size_t>(id.index)] = true;
  }
  void insert(std::span<const ValueId> ids) {
    for (ValueId id : ids) insert(id);
  }
  bool contains_any(std::span<const ValueId> ids) const {
    return std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return contains(id); });
  }

 private:
  std::vector<bool> members_;
};

bool is_float_tensor(const ir::Graph& graph, ValueId id) {
  const ir::ValueType& type = graph.value(id).type;
  return type.is_tensor() && ops::types::floats.contains(type.dtype);
}

// Whether gradients flow through the output of a node on the path: a float tensor, a sequence, or integers that stand
// for real numbers, which are only moved before they become floats again.
bool carries_gradient(const ir::Graph& graph, const ir::Node& node, ValueId output, const ValueSet& active) {
  if (is_float_tensor(graph, output)) return true;
  // Sequences of tensors have no gradient; skipping one would silently give zeros.
  if (!graph.value(output).type.is_tensor()) return true;
  if (ops::stands_for_reals(node)) return true;
  return output == node.outputs[0] && ops::op_of(node).has(ops::Trait::rearranges) && active.contains(node.inputs[0]);
}

// The nodes between xs and y, in order, and the values that depend on xs.
struct Path {
  std::vector<NodeId> nodes;
  ValueSet active;
};

Path find_path(const ir::Graph& graph, ValueId y, std::span<const ValueId> xs, std::span<const ValueId> constants) {
  Path path;
  ValueSet leaves, wanted;
  leaves.insert(xs);
  leaves.insert(constants);
  path.active.insert(xs);
  for (NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (!path.active.contains_any(node.inputs)) continue;
    for (ValueId output : node.outputs) {
      if (output.valid() && !leaves.contains(output) && carries_gradient(graph, node, output, path.active))
        path.active.insert(output);
    }
  }
  wanted.insert(y);
  for (auto id = graph.order().rbegin(); id != graph.order().rend(); ++id) {
    const ir::Node& node = graph.node(*id);
    const bool needed = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
      return wanted.contains(output) && path.active.contains(output) && !leaves.contains(output);
    });
    if (!needed) continue;
    path.nodes.push_back(*id);
    for (ValueId input : node.inputs) {
      if (path.active.contains(input)) wanted.insert(input);
    }
  }
  std::reverse(path.nodes.begin(), path.nodes.end());
  return path;
}

// Decomposes until no composite is left on the path, and returns the path.
Path decompose_path(ir::Graph& graph, ValueId y, std::span<const ValueId> xs, std::span<const ValueId> constants) {
  for (;;) {
    Path path = find_path(graph, y, xs, constants);
    bool changed = false;
    for (NodeId id : path.nodes) {
      const ops::OpDef& op = ops::op_of(graph.node(id));
      if (op.decompose != nullptr && op.gradient == nullptr) changed = decompose_node(graph, id) || changed;
      else if (can_unroll(graph.node(id))) changed = unroll(graph, id).empty() || changed;
    }
    if (!changed) return path;
    graph.sort_topologically();
    ops::infer_graph(graph);
  }
}

class Differentiation {
 public:
  Differentiation(ir::Graph& graph, Path path) : graph_(graph), path_(std::move(path)), builder_(graph) {
    builder_.set_name_prefix("gradient/");
  }

  void run(ValueId y) {
    const ops::Term result(builder_, y);
    gradients_[y] = result.number(1).expand_like(result).id();
    for (auto id = path_.nodes.rbegin(); id != path_.nodes.rend(); ++id) go_back_through(*id);
    require(missing_.empty(), ErrorKind::unsupported, "{}", fmt::join(missing_, "; "));
  }

  ValueId gradient_of(ValueId x) {
    const auto found = gradients_.find(x);
    return found != gradients_.end() ? found->second : ops::Term(builder_, x).zeros().id();
  }

 private:
  void go_back_through(NodeId id) {
    const ir::Node node = graph_.node(id);  // a copy: the graph grows
    const ops::OpDef& op = ops::op_of(node);
    std::vector<ValueId> output_gradients;
    for (ValueId output : node.outputs) {
      const auto found = gradients_.find(output);
      output_gradients.push_back(found != gradients_.end() ? found->second : ValueId{});
    }
    // Nothing to do without a gradient of the outputs, or for operators that pass none to their inputs.
    if (op.gradient != nullptr &&
        std::none_of(output_gradients.begin(), output_gradients.end(), [](ValueId each) { return each.valid(); }))
      return;
    if (can_unroll(node)) return go_back_through_control_flow(id, node, output_gradients);
    if (op.gradient == nullptr)
      return miss(id, op.decompose != nullptr ? "cannot be decomposed while its shapes are not known" : "");
    std::vector<bool> wanted;
    for (std::size_t i = 0; i < node.formal_inputs(); ++i) wanted.push_back(path_.active.contains(node.inputs[i]));
    try {
      ops::GradientContext context(builder_, node, op, std::move(output_gradients), std::move(wanted));
      op.gradient(context);
      for (std::size_t i = 0; i < context.results().size(); ++i) accumulate(node.inputs[i], context.results()[i]);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      miss(id, error.message());
    }
  }

  // Differentiates an If whose condition depends on data; a loop that could not be unrolled has no gradient.
  void go_back_through_control_flow(NodeId id, const ir::Node& node, const std::vector<ValueId>& output_gradients) {
    if (node.op != "If") return miss(id, unroll(graph_, id));
    if (std::none_of(output_gradients.begin(), output_gradients.end(), [](ValueId each) { return each.valid(); }))
      return;
    std::vector<bool> wanted;
    for (std::size_t i = node.formal_inputs(); i < node.inputs.size(); ++i)
      wanted.push_back(path_.active.contains(node.inputs[i]));
    try {
      const std::vector<ValueId> results = gradients_of_if(graph_, node, output_gradients, wanted);
      for (std::size_t i = 0; i < results.size(); ++i) accumulate(node.inputs[node.formal_inputs() + i], results[i]);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      miss(id, error.message());
    }
  }

  void accumulate(ValueId value, ValueId gradient) {
    if (!gradient.valid()) return;
    const auto [entry, first] = gradients_.try_emplace(value, gradient);
    if (!first) entry->second = builder_.add("Add", {entry->second, gradient});
  }

  void miss(NodeId id, const std::string& reason) {
    const ir::Node& node = graph_.node(id);
    missing_.push_back(fmt::format("no gradient is stated for {} ({}{})", node.op, ir::describe(graph_, id),
                                   reason.empty() ? "" : ": " + reason));
  }

  ir::Graph& graph_;
  Path path_;
  ops::GraphBuilder builder_;
  std::map<ValueId, ValueId> gradients_;
  std::vector<std::string> missing_;
};

ValueId named(const ir::Graph& graph, const std::string& name) {
  const ValueId id = graph.find_value(name);
  require(id.valid(), ErrorKind::invalid_model, "there is no tensor '{}' to differentiate", name);
  return id;
}

std::vector<ValueId> named(const ir::Graph& graph, const std::vector<std::string>& names) {
  std::vector<ValueId> ids;
  for (const std::string& name : names) ids.push_back(named(graph, name));
  return ids;
}

// Copies the nodes between `from` and y with `to` in the place of `from`, and returns the copy of y.
ValueId copy_with(ir::Graph& graph, ValueId y, std::span<const ValueId> from, std::span<const ValueId> to) {
  std::map<ValueId, ValueId> copies;
  for (std::size_t i = 0; i < from.size(); ++i) copies.emplace(from[i], to[i]);
  ValueSet needed;  // for y
  needed.insert(y);
  const std::vector<NodeId> order = graph.order();
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    if (needed.contains_any(graph.node(*id).outputs)) needed.insert(graph.node(*id).inputs);
  }
  for (NodeId id : order) {
    ir::Node node = graph.node(id);
    const bool changes =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return copies.contains(input); });
    if (!changes || !needed.contains_any(node.outputs)) continue;
    for (ValueId& input : node.inputs) {
      if (const auto copy = copies.find(input); copy != copies.end()) input = copy->second;
    }
    for (ValueId& output : node.outputs) {
      if (!output.valid()) continue;
      const ValueId copy = graph.add_value(graph.fresh_name(graph.value(output).name), graph.value(output).type);
      copies.emplace(output, copy);  // not where the value is one of `from`: that one stays replaced
      output = copy;
    }
    graph.add_node(std::move(node));
  }
  const auto copy = copies.find(y);
  return copy != copies.end() ? copy->second : y;
}

void replace(ir::Graph& graph, NodeId id) {
  const ir::Node node = graph.node(id);
  const ops::AttributeReader reader(node, ops::op_of(node));
  ValueId y = named(graph, reader.text("y"));
  std::vector<ValueId> leaves = named(graph, reader.texts("xs"));
  const std::size_t count = leaves.size();
  if (reader.has_attribute("zs")) {
    const std::vector<ValueId> constants = named(graph, reader.texts("zs"));
    leaves.insert(leaves.end(), constants.begin(), constants.end());
  }
  graph.remove_node(id);
  if (leaves != node.inputs) {
    // Renames the values, because one of them may stand for several.
    std::vector<ValueId> given;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      given.push_back(graph.add_value(graph.fresh_name("gradient/at"), graph.value(node.inputs[i]).type));
      graph.add_node({"Identity", "", {node.inputs[i]}, {given.back()}, {}, 0});
    }
    y = copy_with(graph, y, leaves, given);
    leaves = std::move(given);
  }
  graph.sort_topologically();
  require(is_float_tensor(graph, y), ErrorKind::invalid_model, "'{}' is {}, expected a float tensor to differentiate",
          reader.text("y"), ir::to_string(graph.value(y).type));
  const std::vector<ValueId> gradients =
      build_gradients(graph, y, std::span(leaves).first(count), std::span(leaves).subspan(count));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) graph.add_node({"Identity", "", {gradients[i]}, {node.outputs[i]}, {}, 0});
  }
  graph.sort_topologically();
  ops::infer_graph(graph);
}

// A Gradient node whose y does not depend on another one, or an invalid id when none is left.
NodeId next_gradient(const ir::Graph& graph) {
  std::vector<NodeId> found;
  for (NodeId id : graph.order()) {
    if (graph.node(id).op == kGradient) found.push_back(id);
  }
  if (found.empty()) return {};
  for (NodeId id : found) {
    ValueSet needed;
    needed.insert(graph.find_value(std::get<std::string>(graph.node(id).attributes.at("y"))));
    bool ready = true;
    for (auto each = graph.order().rbegin(); each != graph.order().rend(); ++each) {
      if (!needed.contains_any(graph.node(*each).outputs)) continue;
      ready = ready && graph.node(*each).op != kGradient;
      needed.insert(graph.node(*each).inputs);
    }
    if (ready) return id;
  }
  fail(ErrorKind::invalid_model, "Gradient nodes that need one another: {}", ir::describe(graph, found[0]));
}

}  // namespace

std::vector<bool> reached_by_gradients(const ir::Graph& graph, std::span<const ValueId> ys,
                                       std::span<const ValueId> xs) {
  ValueSet reached;
  reached.insert(ys);
  for (const ValueId y : ys) {
    for (const NodeId id : find_path(graph, y, xs, {}).nodes) reached.insert(graph.node(id).inputs);
  }
  std::vector<bool> result;
  for (const ValueId x : xs) result.push_back(reached.contains(x));
  return result;
}

std::vector<ValueId> build_gradients(ir::Graph& graph, ValueId y, std::span<const ValueId> xs,
                                     std::span<const ValueId> constants) {
  Differentiation differentiation(graph, decompose_path(graph, y, xs, constants));
  differentiation.run(y);
  std::vector<ValueId> gradients;
  for (ValueId x : xs) gradients.push_back(differentiation.gradient_of(x));
  return gradients;
}

ir::Graph differentiate(ir::Graph graph, const PassContext&) {
  for (NodeId id = next_gradient(graph); id.valid(); id = next_gradient(graph)) {
    const std::string place = ir::describe(graph, id);
    try {
      replace(graph, id);
    } catch (Error& error) {
      error.add_context(place);
      throw;
    }
  }
  return graph;
}

}  // namespace tessera::passes
