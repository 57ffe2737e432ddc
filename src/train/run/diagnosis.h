// Finds the cause of a failed training step.
#pragma once

#include <string>

#include "ir/graph.h"
#include "tessera/session.h"

namespace tessera::train {

// Computes the step with these inputs and variables, without changing variables, and describes where the first number
// that is not finite appears: in an input, a variable, or the result of a node. Empty if all are finite. Keeps every
// intermediate value, so it needs more memory than the step.
std::string first_not_finite(const ir::Graph& step, const NamedValues& inputs,
                             const std::map<std::string, Tensor>& variables, const SessionOptions& options,
                             const RunOptions& how);

}  // namespace tessera::train
