// Reductions over axes.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef reduce_l1, reduce_l2, reduce_log_sum, reduce_log_sum_exp, reduce_max, reduce_mean, reduce_min,
    reduce_prod, reduce_sum, reduce_sum_square;

// The axes that a Reduce operator reduces: those given, or when none are given, all of them or (with
// noop_with_empty_axes) none. Sorted; throws Error(invalid_model) on one outside the rank or repeated.
std::vector<std::int64_t> reduction_axes(std::span<const std::int64_t> given, std::int64_t rank, bool noop_when_empty);

// The shape of the result: each reduced axis becomes 1 or (without keepdims) is removed.
ir::Dims reduced_dims(const ir::Dims& dims, std::span<const std::int64_t> axes, bool keepdims);

}  // namespace tessera::ops
