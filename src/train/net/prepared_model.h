// Prepares a model for the graphs of training.
#pragma once

#include "ir/graph.h"
#include "train/net/training_graph.h"

namespace tessera::train {

// The model in training or inference form (train/net/modes.h), with tensors in place of sequences, weights moved out of
// the bodies of loops, everything computed that does not depend on weights (train/net/untrained.h), and attention as
// one node where the options allow it. Values whose names belong to a step's outputs are renamed. The order of the
// outputs stays.
ir::Graph prepared_model(ir::Graph model, const TrainingGraphOptions& options, bool trains);

}  // namespace tessera::train
