// Limits on what a model file may ask for.
#pragma once

#include <cstdint>

namespace tessera {

// What a file may ask for while it is read: a few bytes of it can mean much memory and work. Beyond a limit loading
// throws Error(over_budget). Weights count for the session that runs the model (SessionOptions::memory_limit_bytes).
struct ModelLimits {
  std::int64_t max_parsed_bytes = std::int64_t{256} << 20;   // memory of nodes, attributes, names and short lists
  std::int64_t max_inlined_nodes = 100'000;                  // nodes that local functions expand to, in total
  std::int64_t max_inlined_bytes = std::int64_t{128} << 20;  // and the bytes of those nodes as in the file
  std::int64_t max_nesting = 64;  // subgraphs in subgraphs, and functions in functions; at most 64
  std::int64_t max_dense_bytes = std::int64_t{256} << 20;  // of all sparse tensors made dense
};

}  // namespace tessera
