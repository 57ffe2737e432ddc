// Captures a value that a Loop or Scan carries from iteration to iteration without changing it: it is no longer copied,
// and if it is a constant of the graph, folding and weight packing see it in the body.
#include <algorithm>

#include "passes/find.h"
#include "passes/pass.h"

namespace tessera::passes {
namespace {

using ir::ValueId;

// The positions from which on the body's inputs and outputs are carried values.
struct Carried {
  std::size_t first_input, first_output, count;
};

Carried carried_by(const ir::Node& node) {
  const std::size_t formal = node.formal_inputs();
  if (node.op == "Loop") return {2, 1, formal > 2 ? formal - 2 : 0};
  const auto scanned = static_cast<std::size_t>(std::get<std::int64_t>(node.attributes.at("num_scan_inputs")));
  return {0, 0, formal > scanned ? formal - scanned : 0};
}

// Carried values that the body returns unchanged.
std::vector<std::size_t> invariants(const ir::Graph& body, const Carried& carried) {
  std::vector<std::size_t> found;
  for (std::size_t k = 0; k < carried.count; ++k) {
    if (source_of(body, body.outputs()[carried.first_output + k]) == body.inputs()[carried.first_input + k])
      found.push_back(k);
  }
  return found;
}

template <typename T>
void move_to_end(std::vector<T>& values, std::size_t first, const std::vector<std::size_t>& chosen) {
  std::vector<T> moved;
  for (const std::size_t k : chosen) moved.push_back(values[first + k]);
  for (auto k = chosen.rbegin(); k != chosen.rend(); ++k)
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(first + *k));
  values.insert(values.end(), moved.begin(), moved.end());
}

void erase(std::vector<ValueId>& values, std::size_t first, const std::vector<std::size_t>& chosen) {
  for (auto k = chosen.rbegin(); k != chosen.rend(); ++k) {
    if (first + *k < values.size()) values.erase(values.begin() + static_cast<std::ptrdiff_t>(first + *k));
  }
}

class Capturing {
 public:
  explicit Capturing(ir::Graph graph) : graph_(std::move(graph)), replacements_(graph_.value_count()) {}

  ir::Graph run() {
    const std::vector<ir::NodeId> order = graph_.order();  // outputs that keep their names add nodes
    for (const ir::NodeId id : order) {
      const std::string& op = graph_.node(id).op;
      if (op == "Loop" || op == "Scan") capture(id);
    }
    if (!changed_) return std::move(graph_);
    graph_.replace_uses(replacements_);
    graph_.sort_topologically();
    graph_.remove_dead_and_compact();
    return std::move(graph_);
  }

 private:
  void capture(ir::NodeId id) {
    ir::Node node = graph_.node(id);
    auto& body = std::get<ir::SubgraphPointer>(node.attributes.at("body"));
    const Carried carried = carried_by(node);
    const std::vector<std::size_t> chosen = invariants(*body, carried);
    // A loop without any output left would be removed, although it may be endless, which a run must notice.
    if (chosen.size() == body->outputs().size() - carried.first_output) return;
    // A value without an initial value cannot be captured.
    if (chosen.empty() ||
        std::ranges::any_of(chosen, [&](std::size_t k) { return !node.inputs[carried.first_input + k].valid(); }))
      return;
    for (const std::size_t k : chosen) {
      if (k < node.outputs.size() && node.outputs[k].valid())
        give(node.outputs[k], node.inputs[carried.first_input + k]);
    }
    auto copy = std::make_shared<ir::Graph>(*body);
    std::vector<ValueId> inputs = copy->inputs(), outputs = copy->outputs();
    move_to_end(inputs, carried.first_input, chosen);
    erase(outputs, carried.first_output, chosen);
    copy->set_inputs(std::move(inputs));
    copy->set_outputs(std::move(outputs));
    copy->remove_dead_and_compact();
    body = copy;
    move_to_end(node.inputs, carried.first_input, chosen);
    erase(node.outputs, 0, chosen);
    node.captures += static_cast<std::int32_t>(chosen.size());
    graph_.replace_node(id, std::move(node));
    for (ir::Node& carrier : carriers_) graph_.add_node(std::move(carrier));
    carriers_.clear();
    changed_ = true;
  }

  // Replaces `output`, which the node no longer has, by `initial`. An output of the graph keeps its name.
  void give(ValueId output, ValueId initial) {
    if (std::ranges::find(graph_.outputs(), output) == graph_.outputs().end()) {
      replacements_[static_cast<std::size_t>(output.index)] = initial;
      return;
    }
    carriers_.push_back({"Identity", "", {initial}, {output}, {}, 0});
  }

  ir::Graph graph_;
  std::vector<ValueId> replacements_;
  std::vector<ir::Node> carriers_;
  bool changed_ = false;
};

}  // namespace

ir::Graph capture_invariants(ir::Graph graph, const PassContext&) {
  return Capturing(std::move(graph)).run();
}

}  // namespace tessera::passes
