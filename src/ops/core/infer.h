// Runs type and shape inference over nodes and graphs.
#pragma once

#include <span>
#include <vector>

#include "ops/core/op.h"

namespace tessera::ops {

// Checks the node against its operator (arity, element types, attributes) and returns the types of its outputs, one an
// entry of node.outputs (a default ValueType for an output that is not wanted). Errors carry the node's name.
std::vector<ir::ValueType> infer_node(const ir::Graph& graph, const ir::Node& node,
                                      const InferContext::ConstantLookup& constants);

// Infers the outputs of one node of the graph, in place, as infer_graph does.
void infer_node_in_place(ir::Graph& graph, ir::NodeId node);

// Infers every value of the graph in order, in place. A declared type of a value or output is refined, and must not
// contradict what inference finds (Error(invalid_model)).
void infer_graph(ir::Graph& graph);

// Types of the outputs of a closed subgraph, given those of all its inputs. The shapes given count, whatever the
// subgraph declares; another kind or element type than it declares is Error(invalid_model). Nothing is modified.
std::vector<ir::ValueType> infer_subgraph(const ir::Graph& subgraph, std::span<const ir::ValueType> inputs);

// Bounds the inference of loops in loops. A loop infers its body again until its carried types stay as they are, so
// loops in loops do exponentially more. An outermost scope grants work in proportion to the nodes in its body, at any
// depth; scopes in it share the grant, and infer_subgraph draws on it. When it is used up, loops are to settle for
// types without shapes.
class LoopInferenceScope {
 public:
  explicit LoopInferenceScope(const ir::Graph& body);
  ~LoopInferenceScope();
  LoopInferenceScope(const LoopInferenceScope&) = delete;
  LoopInferenceScope& operator=(const LoopInferenceScope&) = delete;
  bool exhausted() const;

 private:
  bool outermost_;
};

}  // namespace tessera::ops
