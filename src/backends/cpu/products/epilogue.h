// The epilogue of products and convolutions: the activation that is applied to a sum before it is stored.
#pragma once

#include <limits>
#include <string>

#include "backends/cpu/element_wise/element_wise_unary.h"
#include "ops/core/op.h"

namespace tessera::backends::cpu {

// An activation in two parts: bounds, which products apply to sums in registers, and a function of rows that have just
// been written, for everything that is not a bound.
struct ActivationPlan {
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
  RowActivation after;         // null function: nothing to apply
  bool is_hard_swish = false;  // whether `after` is hard swish, which some products apply in registers instead
};

// Returns "" or why the node's activation cannot be fused.
std::string reject_activation(const ops::AttributeReader& reader);
ActivationPlan plan_activation(const ops::AttributeReader& reader);

}  // namespace tessera::backends::cpu
