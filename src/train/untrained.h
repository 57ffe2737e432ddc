// Float constants of a net that are no weights: masks, limits and factors of operators.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::train {

// Why a float constant is not trained, in a few words for people; nothing where it is a weight:
//   a mask     it has elements of −10,000 or less, and is added, chosen by a condition or the mask of attention alone
//   a setting  operators read it that have no gradient for it, such as the factors of Resize
// `uses` are those of the constant. A learned bias of attention scores has no such elements, and is a weight.
std::optional<std::string> why_untrained(const ir::Graph& graph, ir::ValueId constant,
                                         const std::vector<ir::NodeId>& uses);

std::vector<std::string> names_of_constants(const ir::Graph& graph);

// Computes what depends on known shapes, integers and scalars alone, such as causal masks that exporters compute, as
// far as it is small. What depends on float constants of rank 1 or more stays, as those may be trained, unless it
// serves as a setting alone (the factors of Resize, put together by Concat). The names of the new constants are added
// to `computed`.
ir::Graph compute_untrained(ir::Graph graph, std::vector<std::string>& computed);

}  // namespace tessera::train
