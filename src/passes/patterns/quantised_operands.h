// What lower_quantised reads of a graph: which values are integers that were dequantised, and what follows a value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// A tensor as bytes with one scale and one zero point.
struct Quantised {
  ir::ValueId bytes, scale, zero;  // an invalid zero point is 0
};

// Weights that are signed bytes, constants: with one scale and one zero point, or of either one for each index of an
// axis. An invalid zero point is 0.
struct QuantisedWeights {
  ir::ValueId bytes, scale, zero = {};
};

// Whether the operator gives elements of its first operand unchanged, chosen by their places or by their order: with
// quantised elements of one scale it does the same.
bool moves_quantised(const ir::Node& node);

inline bool has_input(const ir::Node& node, std::size_t i) {
  return node.inputs.size() > i && node.inputs[i].valid();
}

// Looks at the graph as it is when asked. `uses` is a snapshot of its uses.
class QuantisedOperands {
 public:
  QuantisedOperands(const ir::Graph& graph, const std::vector<std::vector<ir::NodeId>>& uses)
      : graph_(graph), uses_(uses) {}

  // The value of a constant of one element, or null.
  const Tensor* single(ir::ValueId value) const;
  // Whether both are the same number, as constants or as the same value.
  bool same(ir::ValueId a, ir::ValueId b) const;
  // Whether the node's scale is one positive number of f32 and its zero point one byte.
  bool is_by_tensor(const ir::Node& node) const;
  // What a real tensor is as unsigned bytes, when it was dequantised.
  std::optional<Quantised> dequantised(ir::ValueId value) const;
  // What it is as weights, with scales for each index of `axis` at the most.
  std::optional<QuantisedWeights> weights(ir::ValueId value, std::int64_t axis) const;
  // Input i as real numbers in a vector, a constant; an invalid value where there is none.
  std::optional<ir::ValueId> bias(const ir::Node& node, std::size_t i) const;
  // The only node that uses the value.
  std::optional<ir::NodeId> follower(ir::ValueId value) const;
  // The node that turns the value into bytes, if nothing else uses it.
  std::optional<ir::NodeId> quantising(ir::ValueId value) const;

 private:
  const ir::Node* dequantising(ir::ValueId value) const;

  const ir::Graph& graph_;
  const std::vector<std::vector<ir::NodeId>>& uses_;
};

}  // namespace tessera::passes
