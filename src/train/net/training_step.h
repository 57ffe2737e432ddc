// Makes a training step for a model without a configuration.
#pragma once

#include <string>

#include "tessera/model.h"

namespace tessera::train {

// The step that a Trainer runs (train/net/training_graph.h), with this optimiser (momentum 0.9 for SGD) and the loss
// that fits the first float output: cross-entropy over its classes (axis 1 of feature maps, else the last axis) if
// there are two or more, else the squared error. Throws Error(unsupported) that lists operators without a gradient, and
// Error(invalid_argument) if the model has nothing to train.
Model usual_training_step(const Model& model, const std::string& optimiser = "sgd");

}  // namespace tessera::train
