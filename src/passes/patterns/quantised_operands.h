// Queries of lower_quantised: which values are dequantised integers, and which nodes follow a value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// An 8-bit tensor with one scale and one zero point.
struct Quantised {
  ir::ValueId bytes, scale, zero;  // an invalid zero point is 0
};

// Constant weights of type i8, with a scale and a zero point per tensor or per index of an axis. An invalid zero point
// is 0.
struct QuantisedWeights {
  ir::ValueId bytes, scale, zero = {};
};

// Whether the operator returns elements of its first operand unchanged, chosen by position or by order: it can work on
// quantised elements of one scale instead.
bool moves_quantised(const ir::Node& node);

inline bool has_input(const ir::Node& node, std::size_t i) {
  return node.inputs.size() > i && node.inputs[i].valid();
}

// Reads the graph at the time of each call. `uses` is a snapshot of its uses.
class QuantisedOperands {
 public:
  QuantisedOperands(const ir::Graph& graph, const std::vector<std::vector<ir::NodeId>>& uses)
      : graph_(graph), uses_(uses) {}

  // The value of a constant of one element, or null.
  const Tensor* single(ir::ValueId value) const;
  // Whether both are the same number, as constants or as the same value.
  bool same(ir::ValueId a, ir::ValueId b) const;
  // Whether the node's scale is one positive f32 number and its zero point one 8-bit number.
  bool is_by_tensor(const ir::Node& node) const;
  // The u8 form of a real tensor that was dequantised; nothing for other tensors.
  std::optional<Quantised> dequantised(ir::ValueId value) const;
  // The i8 form of dequantised constant weights, with scales per tensor or per index of `axis`.
  std::optional<QuantisedWeights> weights(ir::ValueId value, std::int64_t axis) const;
  // The constant input i as a vector of real numbers; an invalid value where the input is absent, nothing where it has
  // no such form.
  std::optional<ir::ValueId> bias(const ir::Node& node, std::size_t i) const;
  // The only node that uses the value.
  std::optional<ir::NodeId> follower(ir::ValueId value) const;
  // The node that quantises the value to 8 bits, if nothing else uses the value.
  std::optional<ir::NodeId> quantising(ir::ValueId value) const;

 private:
  const ir::Node* dequantising(ir::ValueId value) const;

  const ir::Graph& graph_;
  const std::vector<std::vector<ir::NodeId>>& uses_;
};

}  // namespace tessera::passes
