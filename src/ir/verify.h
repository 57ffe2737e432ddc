// Checks that a graph keeps the rules that every pass, plan and writer relies on.
#pragma once

#include "ir/graph.h"

namespace tessera::ir {

// Subgraphs inside subgraphs that a graph may have.
inline constexpr int kMaxSubgraphDepth = 100;

// Throws Error(invalid_model), naming the value or node, unless:
//  - every handle is in range, and every used value has a source: an input, a constant, a variable or a node in the
//  order;
//  - each value has one producer, which lists it as the output that the value says (static single assignment);
//  - nodes stand in topological order;
//  - names of values are unique, and so are those of variables;
//  - constants and variables hold a tensor of the value's type, and a variable's update has its type (as far as known);
//  - sequence, optional and map types have an element type;
//  - subgraphs keep these rules too, are not nested deeper than kMaxSubgraphDepth, and have an input for each captured
//  value.
// The operands of operators are checked by ops/core/infer.h.
void verify(const Graph& graph);

// Renames values until names are unique, here and in subgraphs. Inputs, outputs and variables keep their names before
// others do, and among equals the first keeps its. Subgraphs that need no change stay shared.
void make_names_unique(Graph& graph);

}  // namespace tessera::ir
