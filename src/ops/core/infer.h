// Runs type and shape inference over nodes and graphs.
#pragma once

#include <span>
#include <vector>

#include "ops/core/op.h"

namespace tessera::ops {

// Checks the node against its operator (arity, element types, attributes) and returns the types of its outputs: one per
// entry of node.outputs, a default ValueType for an output that is not wanted. Errors carry the node's name.
std::vector<ir::ValueType> infer_node(const ir::Graph& graph, const ir::Node& node,
                                      const InferContext::ConstantLookup& constants);

// Infers the outputs of one node of the graph, in place, as infer_graph does.
void infer_node_in_place(ir::Graph& graph, ir::NodeId node);

// Infers every value of the graph in order, in place. Declared types of values and outputs are refined; throws
// Error(invalid_model) when one contradicts inference.
void infer_graph(ir::Graph& graph);

// The types of the outputs of a closed subgraph, given those of all its inputs. The given shapes replace those that the
// subgraph declares; throws Error(invalid_model) for another kind or element type than declared. Nothing is modified.
std::vector<ir::ValueType> infer_subgraph(const ir::Graph& subgraph, std::span<const ir::ValueType> inputs);

// Bounds the inference of nested loops. A loop infers its body repeatedly until its carried types no longer change, so
// nesting makes the work exponential. An outermost scope grants work in proportion to the nodes in its body, at any
// depth; inner scopes share the grant, and infer_subgraph draws on it. When it is used up, loops must settle for types
// without shapes.
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
