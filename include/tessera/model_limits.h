// Limits on the memory and work that reading a model file may take.
#pragma once

#include <cstdint>

namespace tessera {

// Limits on the memory and work that reading a file may take, because a few bytes of a file can ask for much of both.
// Loading throws Error(over_budget) beyond a limit. Weights are not limited here but by the session that runs the model
// (SessionOptions::memory_limit_bytes).
struct ModelLimits {
  std::int64_t max_parsed_bytes = std::int64_t{256} << 20;   // memory of nodes, attributes, names and short lists
  std::int64_t max_inlined_nodes = 100'000;                  // nodes that local functions expand to, in total
  std::int64_t max_inlined_bytes = std::int64_t{128} << 20;  // and the bytes of those nodes as in the file
  std::int64_t max_nesting = 64;  // subgraphs in subgraphs, and functions in functions; at most 64
  std::int64_t max_dense_bytes = std::int64_t{256} << 20;  // of all sparse tensors made dense
};

}  // namespace tessera
