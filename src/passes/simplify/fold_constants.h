// Functions of the pass fold_constants that other passes use.
#pragma once

#include <vector>

#include "passes/pass.h"

namespace tessera::passes {

// Folds all constants, including the 8-bit weights that the pass leaves: those dequantised for an operator that may
// compute with the integers.
ir::Graph fold_all_constants(ir::Graph graph, const PassContext& context);

// The pass on a graph whose values keep their ids: what nothing needs any more stays.
void fold_in_place(ir::Graph& graph, const PassContext& context);

// Whether the pass would try to fold the node, by its operands alone.
bool has_constant_operands(const ir::Graph& graph, const ir::Node& node);

// The values that the pass folds a node to, one for each entry of node.outputs, taken from the budget `left`; empty if
// it cannot.
std::vector<Value> folded_results(const ir::Graph& graph, const ir::Node& node, const PassContext& context,
                                  FoldingBudget& left);

}  // namespace tessera::passes
