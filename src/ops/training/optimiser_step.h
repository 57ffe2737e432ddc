// One step of an optimiser over any number of tensors at once: tessera::OptimiserStep.
//
// Inputs: rate, count (of this step, from 1), gradient_scale, apply; then all parameters, all gradients, and the states
// of all parameters, kind by kind (first moments of all, then second moments of all). Outputs: the new parameters, then
// the new states in the same order. A gradient g is multiplied by gradient_scale (the inverse of a loss scale, times
// what clipping leaves) before anything else. Where apply is false every output is its operand.
//
// With wd the weight decay of the parameter p:
//   sgd      g += wd p; b = momentum b + g; p −= rate (nesterov ? g + momentum b : b). Without momentum: no state
//   adam     g += wd p; m = β1 m + (1 − β1) g; v = β2 v + (1 − β2) g²; p −= rate m̂ / (√v̂ + ε), with
//            m̂ = m / (1 − β1^t) and v̂ = v / (1 − β2^t) (Kingma, Ba, arXiv:1412.6980)
//   adamw    p −= rate wd p; then as adam without weight decay (Loshchilov, Hutter, arXiv:1711.05101)
//   adagrad  g += wd p; h += g²; p −= rate / (1 + (t − 1) rate_decay) g / (√h + ε) (Duchi et al., JMLR 12, 2011)
//   lars     g += wd p, times trust ‖p‖ / (‖g‖ + wd ‖p‖ + ε) where both norms are above 0; b = momentum b + rate g;
//            p −= b (You et al., arXiv:1708.03888)
//   lamb     m and v as adam; u = m̂ / (√v̂ + ε) + wd p; p −= rate ‖p‖ / ‖u‖ u where both norms are above 0, else
//            rate u (You et al., arXiv:1904.00962)
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef optimiser_step;

// The attributes of an optimiser, with `decay` for its weight decay or decays.
std::vector<AttributeSpec> optimiser_attributes(AttributeSpec decay);

// The number of state tensors per parameter.
std::size_t optimiser_states(const AttributeReader& reader);

// The number of inputs before the parameters.
inline constexpr std::size_t kOptimiserScalars = 4;

// Whether a kernel may write the output over the input: a parameter over itself, a state over itself.
bool optimiser_updates_in_place(const ir::Node& node, std::size_t output, std::size_t input);

// The decimal number that an attribute stands for: 0.999f is 0.999, and not the nearest float.
double decimal(float attribute);

}  // namespace tessera::ops
