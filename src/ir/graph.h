// The one representation of everything Tessera runs: operators over values, in topological order.
// Handles are small integers and stay valid while the graph is edited; removed nodes leave gaps until
// remove_dead_and_compact(). A Graph is a value: a copy has its own nodes and shares constant storage. Not thread-safe
// for writing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attribute.h"
#include "ir/type.h"

namespace tessera::ir {

struct ValueId {
  std::int32_t index = -1;
  bool valid() const { return index >= 0; }  // an invalid id as a node's input stands for an absent optional input
  friend auto operator<=>(ValueId, ValueId) = default;
};

struct NodeId {
  std::int32_t index = -1;
  bool valid() const { return index >= 0; }
  friend auto operator<=>(NodeId, NodeId) = default;
};

// An application of an operator.
//
// Subgraphs are closed: the values from outside that a subgraph uses are passed in. The node's last `captures` inputs
// are the captured values, and every subgraph of the node has their counterparts as its last `captures` inputs, in the
// same order (used or not). A walk over `inputs` therefore sees every use of a value.
struct Node {
  std::string op;                // "Conv"; outside the default domain "com.microsoft::FusedConv"
  std::string name;              // for people; unique names are not required
  std::vector<ValueId> inputs;   // formal inputs, then captured values
  std::vector<ValueId> outputs;  // an invalid id: this output is not wanted
  Attributes attributes;
  std::int32_t captures = 0;

  std::size_t formal_inputs() const { return inputs.size() - static_cast<std::size_t>(captures); }
};

// Where a value comes from.
enum class Origin : std::uint8_t { node, input, constant, variable };

struct ValueInfo {
  std::string name;  // unique in its graph once the verifier has seen it
  ValueType type;
  Origin origin = Origin::node;
  NodeId producer;                // when origin is node
  std::int32_t output_index = 0;  // which output of the producer
};

// Named state that persists between runs (weights in training, optimiser moments, KV caches, random counters). A run
// reads the state at its start through `read`; if `update` is valid, the value computed for it becomes the state at the
// run's end.
struct Variable {
  std::string name;
  Tensor initial;
  ValueId read;
  ValueId update;
};

class Graph {
 public:
  std::string name;
  std::map<std::string, std::string> metadata;  // free text: producer, documentation, user's properties

  // --- building ---
  ValueId add_input(std::string name, ValueType type);
  // The storage of `tensor` is shared, not copied. An empty name gets a fresh one.
  ValueId add_constant(Tensor tensor, std::string name = "");
  // Returns the value that reads the variable.
  ValueId add_variable(std::string name, Tensor initial);
  void set_variable_update(std::string_view variable, ValueId update);  // throws invalid_argument for an unknown name
  // A value that a node added later will produce.
  ValueId add_value(std::string name, ValueType type = {});
  void add_output(ValueId value) { outputs_.push_back(value); }
  void set_outputs(std::vector<ValueId> outputs) { outputs_ = std::move(outputs); }
  void set_inputs(std::vector<ValueId> inputs) { inputs_ = std::move(inputs); }

  // Appends; claims its outputs (each must be an unclaimed value).
  NodeId add_node(Node node);
  // Gives the node a fresh, untyped value as output `index`, which was not wanted so far.
  void want_output(NodeId node, std::size_t index);
  // Convenience: a node with one fresh, untyped output.
  ValueId add_op(std::string op, std::vector<ValueId> inputs, Attributes attributes = {}, std::string output_name = "");

  // --- editing ---
  // Removes the node; its outputs become unclaimed values.
  void remove_node(NodeId node);
  // Every use of `from` (node inputs, graph outputs, variable updates) becomes `to`.
  void replace_uses(ValueId from, ValueId to);
  // Replaces the uses of many values at once: `replacements` is indexed by ValueId::index, and an invalid entry keeps
  // the uses of that value. If a replacement is itself replaced, its own replacement is used.
  void replace_uses(std::span<const ValueId> replacements);
  // Puts another node in a node's place. The outputs of the old one become unclaimed values first.
  void replace_node(NodeId id, Node node);
  // Makes a produced value a constant: the producer forgets that output, and uses stay.
  void become_constant(ValueId value, Tensor tensor);
  // Reorders by a topological sort (stable); throws Error(invalid_model) naming a node on a cycle.
  void sort_topologically();
  // Drops nodes whose outputs nothing uses, then unused constants and values, and renumbers. Graph inputs and variables
  // stay.
  void remove_dead_and_compact();

  // --- reading ---
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  const std::vector<Variable>& variables() const { return variables_; }
  // Live nodes in execution order.
  const std::vector<NodeId>& order() const { return order_; }
  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id.index)]; }
  Node& node(NodeId id) { return nodes_[static_cast<std::size_t>(id.index)]; }
  const ValueInfo& value(ValueId id) const { return values_[static_cast<std::size_t>(id.index)]; }
  ValueInfo& value(ValueId id) { return values_[static_cast<std::size_t>(id.index)]; }
  std::size_t value_count() const { return values_.size(); }  // handles are 0 … value_count() - 1
  std::size_t node_count() const { return order_.size(); }
  bool is_constant(ValueId id) const { return id.valid() && value(id).origin == Origin::constant; }
  // The tensor of a constant value; null when it is not a constant.
  const Tensor* constant(ValueId id) const;
  // Uses of every value by nodes (an entry a use, so a node can stand twice), indexed by ValueId::index. A snapshot.
  std::vector<std::vector<NodeId>> compute_uses() const;
  bool is_output(ValueId id) const;
  // By name, among all values; invalid when there is none. Linear.
  ValueId find_value(std::string_view name) const;
  // Heap bytes of names, attributes and types, about; without tensors, and without subgraphs, which copies share.
  std::int64_t structure_bytes() const;
  // "prefix_7", not taken by any value.
  std::string fresh_name(std::string_view prefix);

 private:
  ValueId new_value(ValueInfo info);
  void claim_outputs(NodeId id);
  void release_outputs(NodeId id);

  std::vector<Node> nodes_;
  std::vector<ValueInfo> values_;
  std::vector<NodeId> order_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<Variable> variables_;
  std::map<std::int32_t, Tensor> constants_;
  std::int64_t next_name_ = 0;
};

// The subgraphs of a node with their attribute names, in attribute order.
std::vector<std::pair<std::string, SubgraphPointer>> subgraphs_of(const Node& node);

// "node 'name' (Op)", or "a Op node" without a name.
std::string describe(const Node& node);
// Describes as above, but as "node #7 (Op)" if the node has no name.
std::string describe(const Graph& graph, NodeId node);

// Equal structure, names, types, attributes (tensors bitwise) and order; handles may differ.
bool structurally_equal(const Graph& a, const Graph& b);

}  // namespace tessera::ir
