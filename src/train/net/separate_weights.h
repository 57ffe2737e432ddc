// Weights that an exporter keeps once because they are equal before training.
#pragma once

#include "ir/graph.h"

namespace tessera::train {

// The model with constants of their own for each BatchNormalization (separate_batch_norm), and for each use of a
// float32 constant of several elements that are all equal. PyTorch's exporter writes equal initial values, such as the
// ones and zeros of all normalisations, once, and gives them to the layers by Identity; in training they would change
// together. So would the weights of layers that were made as copies of one (torch.nn.TransformerEncoder): those that
// Identity gives under the same name but for its numbers (layers.0.weight, layers.1.weight) become constants of their
// own, too. A weight that layers really share, such as that of an embedding and of the last layer, is hardly ever
// constant, has a name of another kind, and stays shared. The names are those that the Identity nodes give, where there
// are any. A graph that has been separated stays as it is.
ir::Graph separate_weights(ir::Graph model);

}  // namespace tessera::train
