// Constant 8-bit weights in the form that integer layers take.
#pragma once

#include <optional>

#include "ops/core/builder.h"
#include "passes/patterns/quantised_operands.h"

namespace tessera::passes {

// The constant weights `bytes` [M, ...], u8 or i8, as i8. The zero point `zero` (invalid: 0) is one number or one per
// index of the first axis. If all weights minus zero points fit into i8, the new zero point is 0; otherwise u8 weights
// and their zero points are lowered by 128.
std::optional<QuantisedWeights> signed_weights(ops::GraphBuilder& builder, ir::ValueId bytes, ir::ValueId scale,
                                               ir::ValueId zero);

// The weights as real numbers, w_scale (w − w_zero), with scales and zero points of the first axis.
Tensor real_weights(const ir::Graph& graph, const QuantisedWeights& weights);

}  // namespace tessera::passes
