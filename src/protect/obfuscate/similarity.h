// How alike two graphs are (tessera/obfuscation_measure.h).
#pragma once

#include "ir/graph.h"
#include "tessera/obfuscation_measure.h"

namespace tessera::protect {

// Length: both graphs are cut to their first 4,000 nodes, because edit distances take time in proportion to the square.
GraphSimilarity compare_graphs(const ir::Graph& original, const ir::Graph& hidden, std::uint64_t seed);

}  // namespace tessera::protect
