// Checks of shapes that many operators share.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// Throws Error(invalid_model) if input `i` is present, has a known rank, and cannot have the shape `expected`.
void check_operand(const InferContext& context, std::size_t i, const ir::Dims& expected);
// The dimensions of input `i`; unknown dimensions if its rank is unknown. Throws Error(invalid_model) for another rank.
ir::Dims dims_of_rank(const InferContext& context, std::size_t i, std::size_t rank);
// The number of heads in an attribute, from 1 to 2^31 - 1, so that products of a few such numbers do not overflow.
std::int64_t head_count(const InferContext& context, std::string_view attribute);
// `hidden` divided by the number of heads; unknown while the hidden size is.
ir::Dim head_size_of(const InferContext& context, const ir::Dim& hidden, std::int64_t heads, std::string_view name);

}  // namespace tessera::ops
