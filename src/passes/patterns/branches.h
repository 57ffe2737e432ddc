// Rewriting the branches of If.
#pragma once

#include <functional>

#include "ir/graph.h"

namespace tessera::passes {

// Puts rewrite(branch) in the place of every branch, and drops captured values that no branch uses any more. The branch
// comes with the types that it has for what it captures; one that does not fit these types, which is an error only when
// it is taken, stays as it is.
ir::Graph rewrite_branches(ir::Graph graph, const std::function<ir::Graph(ir::Graph)>& rewrite);

}  // namespace tessera::passes
