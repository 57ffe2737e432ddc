// Weights that an exporter keeps once because they are equal before training.
#pragma once

#include "ir/graph.h"

namespace tessera::train {

// The model with constants of their own for each BatchNormalization (separate_batch_norm), and for each use of a
// float32 constant of several elements that are all equal. PyTorch's exporter writes equal initial values, such as the
// ones and zeros of all normalisations, once, and gives them to the layers by Identity; in training they would change
// together. A weight that several layers really share is hardly ever constant, and stays shared. The names are those
// that the Identity nodes give, where there are any. A graph that has been separated stays as it is.
ir::Graph separate_weights(ir::Graph model);

}  // namespace tessera::train
