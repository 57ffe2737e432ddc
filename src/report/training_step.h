// A model as a step of its training.
#pragma once

#include "tessera/model.h"

namespace tessera::report {

// Forward, the gradients of the sum of the first float output by every float weight of rank 1 or more, and an update
// with momentum: weights become variables. Throws Error(unsupported) listing operators without a gradient,
// invalid_argument when the model has nothing to train.
Model training_step(const Model& model);

}  // namespace tessera::report
