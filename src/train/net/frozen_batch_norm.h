// Folds frozen BatchNormalization into convolutions for training.
#pragma once

#include "ir/graph.h"

namespace tessera::train {

// Folds each BatchNormalization whose operands are constants, and which is the only reader of a convolution, into that
// convolution: with s = scale / √(variance + ε) and t = bias − s · mean, BatchNormalization(Conv(x, W, b)) = Conv(x, s
// W, s b + t). The multiplication by s then applies to the weights instead of the feature map, in the forward and the
// backward pass, so that the convolution also computes a ReLU behind it, and the backward pass reads the feature map
// once. Weights stay separate variables. Returns the number of folded nodes.
std::int64_t take_up_frozen_batch_norm(ir::Graph& graph);

}  // namespace tessera::train
