// One step of an optimiser over a table of which only some rows have a gradient: tessera::RowOptimiserStep.
//
// Inputs: rate, count, gradient_scale and apply as OptimiserStep has them (ops/training/optimiser_step.h); the
// parameter [rows, row…]; sums and places as tessera::SumRows gives them; and the states of the parameter. Outputs: the
// new parameter and the new states. Rules are those of OptimiserStep with a gradient of zero for the other rows, but
// for lars and lamb, which need the norms of the whole. With `lazy` rows without a gradient stay as they are, and so do
// their states (as torch.optim.SparseAdam does it): neither their moments fade nor are they decayed.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef row_optimiser_step;

// Inputs of the node.
namespace row_step_input {
enum : std::size_t { rate, count, gradient_scale, apply, parameter, sums, places, first_state };
}

// Whether rows without a gradient stay unchanged, lazy or not.
bool rows_rest(const AttributeReader& reader);
// Whether a kernel may write the output over the input: the parameter over itself, a state over itself.
bool row_step_updates_in_place(const ir::Node& node, std::size_t output, std::size_t input);

}  // namespace tessera::ops
