// Separates weights that an exporter stores once because they are equal before training.
#pragma once

#include "ir/graph.h"

namespace tessera::train {

// The model with separate constants for each BatchNormalization (separate_batch_norm), and for each use of a float32
// constant of several elements that are all equal. PyTorch's exporter writes equal initial values, such as the ones and
// zeros of all normalisations, once, and passes them to the layers by Identity, so that in training they would change
// together. The same holds for the weights of layers that were made as copies of one (torch.nn.TransformerEncoder):
// those that Identity passes on under names that differ only in their numbers (layers.0.weight, layers.1.weight) become
// separate constants, too. A weight that layers really share, such as that of an embedding and of the last layer, is
// hardly ever constant, has a name of another kind, and stays shared. The new constants have the names of the Identity
// nodes' results, if there are any. A graph that was separated before is not changed.
ir::Graph separate_weights(ir::Graph model);

}  // namespace tessera::train
