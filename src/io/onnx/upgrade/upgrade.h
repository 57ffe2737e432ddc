// Rewrites a node of an older opset into the one form that Tessera knows, that of onnx 1.22.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/onnx/open_graph.h"

namespace tessera::io {

// The newest versions that can be read, by domain; 0 for a domain without a known limit.
std::int64_t newest_version(std::string_view domain);

// The versions that changed the operator: older forms are rewritten when read. `op` as ir::Node::op.
std::vector<std::int64_t> changes_of(std::string_view op);

// Whether some version of the operator is read as other operators or as another form of it.
bool is_rewritten(std::string_view op);

// The node that a rule upgrades. It is not in the graph yet, but its outputs exist. Nodes that the rule adds come
// before it.
class Upgrade {
 public:
  Upgrade(OpenGraph& graph, ir::Node& node, std::int64_t version) : node(node), version(version), graph_(graph) {}

  ir::Node& node;
  const std::int64_t version;  // of the node's domain, as the model declares it

  bool has_input(std::size_t i) const { return i < node.formal_inputs() && node.inputs[i].valid(); }
  const ir::ValueType& type(std::size_t i) const { return graph_.graph.value(node.inputs[i]).type; }
  std::optional<std::int64_t> rank(std::size_t i) const;
  // Throw Error(unsupported) while unknown: the older form cannot be rewritten without them.
  std::int64_t known_rank(std::size_t i) const;
  DType known_dtype(std::size_t i) const;
  // The value of input i if it is a constant, else null.
  const Tensor* constant(std::size_t i) const;

  ir::ValueId add(std::string op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {});
  ir::ValueId add_constant(Tensor tensor);
  ir::ValueId integers(const std::vector<std::int64_t>& values);  // 1-D i64
  ir::ValueId integer(std::int64_t value);                        // scalar i64
  // A scalar of the element type of input 0 (a float type; f32 while it is unknown).
  ir::ValueId real_like_input(float value);

  // Sets input `i`, with absent inputs before it as needed.
  void set_input(std::size_t i, ir::ValueId value);
  // Replaces output `i` by op(output i of the node).
  void convert_output(std::size_t i, std::string op, ir::Attributes attributes);

  // Removes the attribute from the node and returns it. Throws Error(invalid_model) when it is of another kind.
  template <typename T>
  std::optional<T> take(std::string_view name);
  template <typename T>
  T take_or(std::string_view name, T otherwise) {
    return take<T>(name).value_or(std::move(otherwise));
  }
  template <typename T>
  T take_required(std::string_view name);
  void set_default(std::string name, ir::Attribute value) {
    node.attributes.try_emplace(std::move(name), std::move(value));
  }

  // Nodes to be added after the node.
  std::vector<ir::Node> after;

 private:
  std::string hint(std::string_view suffix) const;
  OpenGraph& graph_;
};

// Applies every change of the operator between `version` and the newest one, oldest first. Throws Error(unsupported)
// for an old form without equivalent, Error(invalid_model) for an invalid one.
void upgrade_node(Upgrade& upgrade, std::string_view domain);

struct UpgradeRule {
  std::string_view op;
  std::int64_t changed_at;  // the rule turns the form before this version into that of this version
  void (*apply)(Upgrade&);
};

}  // namespace tessera::io
