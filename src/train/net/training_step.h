// The training step of a model of which nobody said how it is trained.
#pragma once

#include <string>

#include "tessera/model.h"

namespace tessera::train {

// The step that a Trainer runs (train/net/training_graph.h) with this optimiser, momentum 0.9 for SGD, and the loss
// that fits the first float output: cross-entropy of its classes (axis 1 of maps, else the last), where there are two
// or more, else the squared error. Throws Error: unsupported listing operators without a gradient, invalid_argument
// when the model has nothing to train.
Model usual_training_step(const Model& model, const std::string& optimiser = "sgd");

}  // namespace tessera::train
