// The epilogue of products and convolutions: the activation that is applied to a sum before it is stored.
#pragma once

#include <limits>
#include <string>

#include "backends/cpu/element_wise/element_wise_unary.h"
#include "ops/core/op.h"

namespace tessera::backends::cpu {

// An activation in two parts: bounds that are applied in registers, and a function of rows that were just written, for
// everything that is not a bound.
struct ActivationPlan {
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
  RowActivation after;         // without a function: nothing
  bool is_hard_swish = false;  // what `after` is: some products apply it in registers instead
};

// "" or why the node's activation cannot be fused.
std::string reject_activation(const ops::AttributeReader& reader);
ActivationPlan plan_activation(const ops::AttributeReader& reader);

}  // namespace tessera::backends::cpu
