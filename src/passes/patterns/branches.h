// Rewriting the branches of If.
#pragma once

#include <functional>

#include "ir/graph.h"

namespace tessera::passes {

// Replaces every branch by rewrite(branch), and drops captured values that no branch uses any more. The branch passed
// to `rewrite` has the types of the values that it captures; a branch that does not fit these types, which is an error
// only when it is taken, stays unchanged.
ir::Graph rewrite_branches(ir::Graph graph, const std::function<ir::Graph(ir::Graph)>& rewrite);

}  // namespace tessera::passes
