// A model as the graphs of training are built on it.
#pragma once

#include "ir/graph.h"
#include "train/net/training_graph.h"

namespace tessera::train {

// The model in training or inference form (train/net/modes.h), with tensors in place of sequences, its weights out of
// the bodies of loops, what does not depend on weights computed (train/net/untrained.h), and attention as one node
// where the options allow it. Its values leave the names of a step's outputs to those. The order of its outputs stays.
ir::Graph prepared_model(ir::Graph model, const TrainingGraphOptions& options, bool trains);

}  // namespace tessera::train
