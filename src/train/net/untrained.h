// Which constants of a net are weights, and which are none: buffers, literals, masks, limits and factors of operators.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::train {

// Patterns of names that turn what the file says of constants. `trained` counts more than `frozen`.
struct WeightPatterns {
  std::vector<std::string> frozen, trained;
};

// Whether a constant is trained, and why, in a few words for people.
struct WeightChoice {
  bool trained = false;
  std::string reason;
};

// Of a float32 constant. What the exporter says of it is believed (ir/constant_role.h): a parameter is trained; a
// buffer, a literal and what was computed are not. Of the constants that nothing is said of, initializers mostly, those
// of rank 1 or more are weights, and so are the scalars of a file that PyTorch wrote, which are nn.Parameter there.
// Whatever was said, none is trained that serves as
//   a mask     (unless it is said to be a parameter) it has elements of −10,000 or less, and is added, chosen by a
//              condition or the mask of attention alone
//   a setting  operators read it that have no gradient for it, such as the factors of Resize
// `uses` are those of the constant. A learned bias of attention scores has no such elements, and is a weight.
WeightChoice choose_weight(const ir::Graph& graph, ir::ValueId constant, const std::vector<ir::NodeId>& uses,
                           const WeightPatterns& patterns);

// Whether the constant may be trained, whatever reads it.
bool may_be_weight(const ir::Graph& graph, ir::ValueId constant, const WeightPatterns& patterns);

std::vector<std::string> names_of_constants(const ir::Graph& graph);

// Computes what depends on known shapes, integers and constants that are no weights, such as causal masks, positional
// tables and states of zeros that exporters compute, as far as it is small. What depends on constants that may be
// trained stays, unless it serves as a setting alone (the factors of Resize, put together by Concat). The new constants
// of floats are marked as computed.
ir::Graph compute_untrained(ir::Graph graph, const WeightPatterns& patterns);

}  // namespace tessera::train
