// Expand and Tile: repetition of a tensor along its axes.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef expand;
extern const OpDef tile;

// The shapes of the results; throw Error(invalid_model) when the request does not fit, Error(over_budget) on overflow.
// Expand broadcasts both ways: a 1 in the request keeps the input's dimension.
ir::Dims expand_dims(const ir::Dims& input, std::span<const std::int64_t> request);
ir::Dims tile_dims(const ir::Dims& input, std::span<const std::int64_t> repeats);

}  // namespace tessera::ops
