// Decides which constants of a net are weights, rather than buffers, literals, masks, limits or factors of operators.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::train {

// Patterns of names that override what the file says about constants. `trained` takes precedence over `frozen`.
struct WeightPatterns {
  std::vector<std::string> frozen, trained;
};

// Whether a constant is trained, and the reason in a few words for people.
struct WeightChoice {
  bool trained = false;
  std::string reason;
};

// Decides about a float32 constant. The exporter's information is trusted (ir/constant_role.h): a parameter is trained;
// a buffer, a literal and a computed constant are not. Constants without information are mostly initializers: those of
// rank 1 or more are weights, and so are the scalars of a file that PyTorch wrote, where they are nn.Parameter.
// In any case, a constant is not trained if it serves as
//   a mask     (unless it is marked as a parameter) it has elements of −10,000 or less, and is only added, chosen by a
//              condition or used as the mask of attention
//   a setting  it is read by operators that have no gradient for it, such as the factors of Resize
// `uses` are those of the constant. A learned bias of attention scores has no such elements, and is a weight.
WeightChoice choose_weight(const ir::Graph& graph, ir::ValueId constant, const std::vector<ir::NodeId>& uses,
                           const WeightPatterns& patterns);

// Whether the constant may be trained, whatever operators read it.
bool may_be_weight(const ir::Graph& graph, ir::ValueId constant, const WeightPatterns& patterns);

std::vector<std::string> names_of_constants(const ir::Graph& graph);

// Computes small values that depend on known shapes, integers and constants that are not weights, such as causal masks,
// positional tables and initial states of zeros that exporters compute. Values that depend on constants that may be
// trained stay, unless they serve only as settings (the factors of Resize, concatenated). New float constants are
// marked as computed.
ir::Graph compute_untrained(ir::Graph graph, const WeightPatterns& patterns);

}  // namespace tessera::train
