// What tests of passes need: graphs of text, passes as a session for the CPU runs them, and graphs as a list of operators.
#pragma once

#include <string>
#include <vector>

#include "passes/pipeline.h"

namespace tessera::test {

// Folding by the reference device, composites as the CPU has kernels for them.
passes::PassContext cpu_pass_context();
// A graph of its text form, with inferred types.
ir::Graph parsed(const std::string& text);
// Operators in order; "+ Z" where a convolution adds another tensor, and the name of the activation that it ends with.
std::vector<std::string> ops_of(const ir::Graph& graph);

}  // namespace tessera::test
