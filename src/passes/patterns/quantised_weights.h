// Constant weights of bytes in the form that integer layers take them.
#pragma once

#include <optional>

#include "ops/core/builder.h"
#include "passes/patterns/quantised_operands.h"

namespace tessera::passes {

// The constant weights `bytes` [M, ...] of either sign, whose zero point `zero` (an invalid one is 0) is one number or
// one for each index of the first axis, as signed bytes: around zero where all of them fit, otherwise around the zero
// point that unsigned ones have 128 lower.
std::optional<QuantisedWeights> signed_weights(ops::GraphBuilder& builder, ir::ValueId bytes, ir::ValueId scale,
                                               ir::ValueId zero);

// The weights as real numbers, w_scale (w − w_zero), with scales and zero points of the first axis.
Tensor real_weights(const ir::Graph& graph, const QuantisedWeights& weights);

}  // namespace tessera::passes
