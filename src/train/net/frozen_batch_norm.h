// Convolutions behind which a frozen BatchNormalization stands, in training.
#pragma once

#include "ir/graph.h"

namespace tessera::train {

// A BatchNormalization whose operands are constants, and which alone reads a convolution, becomes part of that: with
// s = scale / √(variance + ε) and t = bias − s · mean, BatchNormalization(Conv(x, W, b)) = Conv(x, s W, s b + t). The
// product with s goes over the weights instead of over the feature map, forward and back, so a ReLU behind it is
// computed by the convolution, and the backward pass reads the feature map once. Weights stay variables of their own.
// Returns how many were taken up.
std::int64_t take_up_frozen_batch_norm(ir::Graph& graph);

}  // namespace tessera::train
