// The gradient of attention without the matrix of scores: weights are recomputed from the statistics of the forward
// node (T. Dao, "FlashAttention-2", arXiv:2307.08691).
#pragma once

#include "ops/core/gradient.h"

namespace tessera::ops {

extern const OpDef attention_gradient;

// Inputs of AttentionGradient. Q, K, V and the mask are those of the forward node, Y is its result, dY the gradient of
// Y; `random` is present where the forward node drops weights (ops::kAttentionRandom), `replacement` and `second_mask`
// where it has them.
namespace attention_gradient_input {
enum : std::size_t { query, key, value, mask, output, statistics, output_gradient, random, replacement, second_mask };
}

// Sets the gradients of Q, K and V of an Attention to an AttentionGradient and makes the node return its statistics.
// Returns false and changes nothing if the node has caches, a softcap or lengths of keys, returns its scores or has
// types other than f32 and f64, or if the gradient of the mask is needed.
bool set_attention_gradients(GradientContext& context);

}  // namespace tessera::ops
