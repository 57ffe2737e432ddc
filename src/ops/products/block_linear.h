// tessera::BlockLinear: products with weights in the blocks of language models.
#pragma once

#include "base/numbers/block_format.h"
#include "ops/core/op.h"

namespace tessera::ops {

// X [..., K] f32 × W → Y [..., N] f32, plus an optional bias [N]. W holds N rows of K elements as bytes (u8, in one
// dimension or [N, bytes of a row]) in blocks of `format` (base/numbers/block_format.h).
//
// Unless `exact` is set, each row of X is rounded before it meets weights in quantised blocks: for each block of
// activation_block() elements, with a the largest magnitude among them, to d·q, where d = a / 127 and q is the integer
// nearest to x · (127 / a), all in float32, ties to even. A block whose d is below the smallest normal number becomes
// zeros, and one that holds an infinity or NaN makes all of Y's row NaN. Sums go over blocks in ascending order, so
// that a row of Y depends on its row of X alone.
extern const OpDef block_linear;

// The sizes that a node's attributes state. Throws Error(invalid_model) for a format that is not known, and for N and K
// below 1 or K that is no multiple of the block.
struct BlockWeights {
  base::BlockFormat format;
  std::int64_t n, k, row_bytes;
};
BlockWeights block_weights_of(const AttributeReader& reader);
// Checks that input `i` has the shape [N · row_bytes] or [N, row_bytes].
void check_block_weights(const InferContext& context, std::size_t i, const BlockWeights& weights);

// Elements of X that are rounded with one scale: 32, 256 for formats whose blocks have 256 elements, and 0 for f32, f16
// and bf16, for which X is not rounded.
std::int64_t activation_block(base::BlockFormat format);

// Attributes that operators on block weights share: format, N and K.
std::vector<AttributeSpec> block_weight_attributes();

}  // namespace tessera::ops
