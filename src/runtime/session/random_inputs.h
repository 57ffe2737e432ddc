// Random inputs for a model that is run without any.
#pragma once

#include <cstdint>

#include "tessera/session.h"

namespace tessera::runtime {

// Every input of the model from the seed: floats uniform in [0, 1), integers 0 or 1 (safe as indices), bools random,
// strings "text". Dimensions that are not known count 1. Throws Error(unsupported) for inputs that are not tensors, and
// Error(over_budget) when all together have more than max_bytes (0: nine tenths of the memory this process may use).
NamedValues random_inputs(const Model& model, std::uint64_t seed, std::int64_t max_bytes = 0);

}  // namespace tessera::runtime
