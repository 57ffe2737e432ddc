// Replacement of values and operators.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// Records replacements of values while a pass visits the nodes in order.
class Replacements {
 public:
  explicit Replacements(const ir::Graph& graph);

  // Whether the value, which must have existed at the start, is an output of the graph or the update of a variable.
  bool is_result(ir::ValueId value) const {
    return static_cast<std::size_t>(value.index) < is_result_.size() &&
           is_result_[static_cast<std::size_t>(value.index)];
  }
  // From here on `by` replaces `value` in nodes given to apply_to. Returns false and does nothing for results, which
  // keep their names, and for values added since the start.
  bool replace(ir::ValueId value, ir::ValueId by);
  // Replaces values in the inputs of a node, whose inputs must come before it in the order.
  void apply_to(ir::Node& node) const;

 private:
  std::vector<bool> is_result_;
  std::vector<ir::ValueId> replacements_;
};

// Replaces a node by another operator that produces the same outputs under the node's name.
void put_operator(ir::Graph& graph, ir::NodeId id, std::string op, std::vector<ir::ValueId> inputs,
                  ir::Attributes attributes = {});

}  // namespace tessera::passes
