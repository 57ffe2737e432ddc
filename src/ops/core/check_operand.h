// Checks of shapes that many operators share.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// The shape of input `i`, when it is given and of known rank, must be able to equal `expected`.
void check_operand(const InferContext& context, std::size_t i, const ir::Dims& expected);
// The dimensions of input `i`, which must have this rank; unknown ones where nothing is known.
ir::Dims dims_of_rank(const InferContext& context, std::size_t i, std::size_t rank);
// A number of heads: an attribute from 1 to 2^31 - 1, so that a few of them multiplied stay numbers.
std::int64_t head_count(const InferContext& context, std::string_view attribute);
// `hidden` in equal parts, one a head; unknown while the hidden size is.
ir::Dim head_size_of(const InferContext& context, const ir::Dim& hidden, std::int64_t heads, std::string_view name);

}  // namespace tessera::ops
