// What tests of passes need: graphs of text, passes as a session for the CPU runs them, and graphs as a list of
// operators.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "passes/pipeline.h"
#include "tessera/model.h"

namespace tessera::test {

// Folding by the reference device, composites as the CPU has kernels for them.
passes::PassContext cpu_pass_context();
// A graph of its text form, with inferred types.
ir::Graph parsed(const std::string& text);
// Operators in order; "+ Z" where a convolution adds another tensor, and the name of the activation that it ends with.
std::vector<std::string> ops_of(const ir::Graph& graph);
// The nodes of a graph as text, without types and names; values that no test named are "%?".
std::vector<std::string> nodes_of(const ir::Graph& graph);

// Runs the model on random inputs with the pass and without it, and expects equal outputs within so many epsilons.
void expect_same_outputs(const Model& model, const std::string& pass, int epsilons = 500);
// Expects these nodes (as nodes_of gives them) of what the pass makes of a graph in text form, and that sessions
// compute the same with and without it.
void expect_rewritten(const std::string& text, std::string_view pass, const std::vector<std::string>& nodes,
                      int epsilons = 500);
// Expects that the pass leaves the graph as it is, but for what nothing uses.
void expect_left_alone(const std::string& text, std::string_view pass);

}  // namespace tessera::test
