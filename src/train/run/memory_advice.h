// Advises what to do if a training does not fit into its memory.
#pragma once

#include <string>

#include "tessera/session.h"
#include "train/net/training_graph.h"

namespace tessera::train {

// Names the largest activations that a step keeps for the backward pass, and the recomputation (train.recompute_bytes)
// whose plan fits into `limit_bytes` beside the variables, if there is one. `net` must have known shapes.
std::string memory_advice(const ir::Graph& net, TrainingGraphOptions options, SessionOptions session,
                          const NamedValues& inputs, std::int64_t limit_bytes);

}  // namespace tessera::train
