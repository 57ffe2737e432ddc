// What a net computes after its structure was pruned, beside what it would with zeros.
#pragma once

#include "tessera/model.h"
#include "tessera/prune.h"

namespace tessera::test {

// The first output of the model for inputs made up from a seed, on the reference device.
Tensor output_of(const Model& model);

// The dense model with zeros where the smaller one has nothing to multiply by.
Model masked(const Model& model, const PruneReport& report);

}  // namespace tessera::test
