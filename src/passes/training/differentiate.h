// Reverse-mode differentiation: the foundation of training.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// Appends nodes that compute the gradients of the sum of y's elements with respect to xs, and returns the gradients,
// each of the type of its x (zeros where y does not depend on it). y and xs are float tensors of the graph; xs and
// `constants` are treated as independent of one another, so that paths through one of them do not contribute to
// another's gradient. The gradients reuse the forward values instead of computing them again; composites among their
// producers are decomposed. The graph's types must have been inferred. Throws Error(unsupported) that lists every node
// between xs and y whose operator has no gradient.
std::vector<ir::ValueId> build_gradients(ir::Graph& graph, ir::ValueId y, std::span<const ir::ValueId> xs,
                                         std::span<const ir::ValueId> constants = {});

// For each x, whether gradients of one of ys flow to it: an x that only comparisons read has none. Types must have been
// inferred.
std::vector<bool> reached_by_gradients(const ir::Graph& graph, std::span<const ir::ValueId> ys,
                                       std::span<const ir::ValueId> xs);

}  // namespace tessera::passes
