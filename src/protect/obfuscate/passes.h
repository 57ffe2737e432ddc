// The passes of obfuscation, graph to graph. The first two work on the model as it was read, the others on what
// `tessera optimize` makes of it. docs/protect.md says what each hides.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "ir/graph.h"
#include "ops/symbols.h"
#include "protect/obfuscate/dice.h"

namespace tessera::protect {

struct Obfuscation {
  Dice dice;
  int degree = 2;
  ops::SymbolTable symbols = {};
  // Whether the device that the model is for has a kernel for the node as it stands in the graph.
  std::function<bool(const ir::Graph&, const ir::Node&)> accepts = {};

  std::int64_t permuted_channels = 0, scaled_channels = 0, masked_weights = 0, masked_bytes = 0;
  std::int64_t decoy_edges = 0, redundant_nodes = 0;
};

// Permutes the channels between layers. Each sum over channels has the same terms as before in another order.
ir::Graph permute_channels(ir::Graph graph, Obfuscation& state);
// Multiplies channels between layers by powers of two, and divides what reads them: exact.
ir::Graph scale_channels(ir::Graph graph, Obfuscation& state);
// Puts weights behind masks (ops/values/unmask.h): exact. Up to degree 2, only those of the first layer and of layers
// that compute far longer than their weights are unmasked.
ir::Graph mask_weights(ir::Graph graph, Obfuscation& state);
// Adds edges from values that are not needed, decoys, by nodes that cost nothing.
ir::Graph add_decoys(ir::Graph graph, Obfuscation& state);
// Adds nodes that change nothing: views of the same shape, and idempotent functions a second time on small values.
ir::Graph add_redundancy(ir::Graph graph, Obfuscation& state);
// Gives nodes symbols for their operators and attributes, values names without meaning, and drops what else is said.
ir::Graph rename(ir::Graph graph, Obfuscation& state);

struct ObfuscationPass {
  std::string_view name;
  ir::Graph (*run)(ir::Graph, Obfuscation&);
  bool is_before_optimising;
  int least_degree;
};
// In the order in which they run.
std::span<const ObfuscationPass> obfuscation_passes();

}  // namespace tessera::protect
