// Values and operators that others stand for.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// Values that others stand for, found while a pass walks the nodes in order.
class Replacements {
 public:
  explicit Replacements(const ir::Graph& graph);

  // Outputs of the graph and what variables become, of those values that there were at the start.
  bool is_result(ir::ValueId value) const {
    return static_cast<std::size_t>(value.index) < is_result_.size() &&
           is_result_[static_cast<std::size_t>(value.index)];
  }
  // What uses `value` uses `by` instead from here on. Refused for results, which keep their names, and for values that
  // came later.
  bool replace(ir::ValueId value, ir::ValueId by);
  // In the inputs of a node whose inputs were made before it.
  void apply_to(ir::Node& node) const;

 private:
  std::vector<bool> is_result_;
  std::vector<ir::ValueId> replacements_;
};

// Puts another operator in a node's place, which gives its outputs under its name.
void put_operator(ir::Graph& graph, ir::NodeId id, std::string op, std::vector<ir::ValueId> inputs,
                  ir::Attributes attributes = {});

}  // namespace tessera::passes
