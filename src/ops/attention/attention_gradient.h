// The gradient of attention without the matrix of scores: weights are computed again from the statistics of the
// forward node (T. Dao, "FlashAttention-2", arXiv:2307.08691).
#pragma once

#include "ops/core/gradient.h"

namespace tessera::ops {

extern const OpDef attention_gradient;

// Inputs of AttentionGradient. Q, K, V and the mask are those of the forward node, Y its result, dY the gradient of it;
// `random` is there where that dropped weights (ops::kAttentionRandom), `replacement` and `second_mask` where it has
// them.
namespace attention_gradient_input {
enum : std::size_t { query, key, value, mask, output, statistics, output_gradient, random, replacement, second_mask };
}

// Sets the gradients of Q, K and V of an Attention to an AttentionGradient, for which the node gives its statistics
// from here on. False, and nothing is changed, where the node has caches, a softcap, the lengths of keys, gives its
// scores or has types other than f32 and f64, or where the gradient of the mask is wanted.
bool set_attention_gradients(GradientContext& context);

}  // namespace tessera::ops
