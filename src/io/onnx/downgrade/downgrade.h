// Rewrites a graph, whose operators have their newest forms, into forms of an older opset: the reverse of upgrade.h,
// for files that older programs load.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ops/core/builder.h"

namespace tessera::io {

// A node that has no form at the wanted version, and the lowest version at which it has one.
struct FormNeed {
  std::string op;
  std::int64_t version;
};

// The oldest version of the default domain that is written.
inline constexpr std::int64_t kOldestOpset = 9;

// The node that a rule rewrites. `node` is a copy; changes to it take effect when the rule succeeds.
class Downgrade {
 public:
  Downgrade(ir::Graph& graph, ir::Node node, std::int64_t version)
      : node(std::move(node)), version(version), builder(graph), graph_(graph) {}

  ir::Node node;
  const std::int64_t version;  // to be written
  ops::GraphBuilder builder;   // for further nodes, in their newest form; they are rewritten in turn

  bool has_input(std::size_t i) const { return i < node.formal_inputs() && node.inputs[i].valid(); }
  bool wants_output(std::size_t i) const { return i < node.outputs.size() && node.outputs[i].valid(); }
  // Element type and rank of a tensor input; undefined and nothing while unknown.
  DType dtype(std::size_t i) const;
  std::optional<std::int64_t> rank(std::size_t i) const;
  // Null if input i is absent or no constant.
  const Tensor* constant(std::size_t i) const { return has_input(i) ? graph_.constant(node.inputs[i]) : nullptr; }
  // Elements of a constant input of integers, or its only element as a float; nothing if it is no constant.
  std::optional<std::vector<std::int64_t>> integers(std::size_t i) const;
  std::optional<float> real(std::size_t i) const;
  // Removes input i. The node must have no subgraphs.
  void drop_input(std::size_t i);
  void set_input(std::size_t i, ir::ValueId value);

  template <typename T>
  std::optional<T> find(std::string_view name) const {
    const auto found = node.attributes.find(name);
    const T* value = found != node.attributes.end() ? std::get_if<T>(&found->second) : nullptr;
    return value != nullptr ? std::optional(*value) : std::nullopt;
  }
  std::int64_t integer_or(std::string_view name, std::int64_t otherwise) const {
    return find<std::int64_t>(name).value_or(otherwise);
  }
  float real_or(std::string_view name, float otherwise) const { return find<float>(name).value_or(otherwise); }
  std::string text_or(std::string_view name, std::string otherwise) const {
    return find<std::string>(name).value_or(std::move(otherwise));
  }
  void erase(std::string_view name);

  // Replaces the node: its output i becomes results[i]. Outputs without a result must not be wanted.
  bool become(std::vector<ir::ValueId> results);
  const std::vector<ir::ValueId>& results() const { return results_; }

 private:
  ir::Graph& graph_;
  std::vector<ir::ValueId> results_;
};

struct DowngradeRule {
  std::string_view op;
  std::int64_t changed_at;    // the rule turns the form of this version into that before it
  bool (*apply)(Downgrade&);  // false: there is no older form for this node
  // The rule replaces the node by other operators. It is left out where the graph has no opset of its own or the
  // reading program knows the newer operator, because keeping that operator is better there.
  bool decomposes = false;
};

// Rewrites the nodes of the default domain, also in subgraphs, to forms of the version. Returns the nodes without such
// a form; if there are any, the graph is half rewritten and must be discarded. `decompose`: whether decomposing rules
// apply.
std::vector<FormNeed> downgrade_graph(ir::Graph& graph, std::int64_t version, bool decompose);

}  // namespace tessera::io
