#include "ops/element_wise/op_table.h"

#include "ops/element_wise/activation.h"
#include "ops/element_wise/cast.h"
#include "ops/element_wise/comparison.h"
#include "ops/element_wise/element_wise_binary.h"
#include "ops/element_wise/element_wise_program.h"
#include "ops/element_wise/element_wise_unary.h"

namespace tessera::ops {

// Length: one table with a line per operator.
std::span<const OpDef* const> element_wise_ops() {
  static constexpr const OpDef* table[] = {
      // element_wise_program
      &element_wise,
      // element_wise_unary
      &abs,
      &acos,
      &acosh,
      &asin,
      &asinh,
      &atan,
      &atanh,
      &bitwise_not,
      &ceil,
      &clip,
      &cos,
      &cosh,
      &erf,
      &exp,
      &floor,
      &is_inf,
      &is_nan,
      &log,
      &logical_not,
      &neg,
      &reciprocal,
      &round,
      &sign,
      &sin,
      &sinh,
      &sqrt,
      &tan,
      // activation
      &celu,
      &elu,
      &gelu,
      &hard_sigmoid,
      &hard_swish,
      &leaky_relu,
      &mish,
      &relu,
      &selu,
      &shrink,
      &sigmoid,
      &softplus,
      &softsign,
      &swish,
      &tanh,
      &thresholded_relu,
      // element_wise_binary
      &add,
      &bit_shift,
      &bitwise_and,
      &bitwise_or,
      &bitwise_xor,
      &div,
      &max,
      &mean,
      &min,
      &mod,
      &mul,
      &p_relu,
      &pow,
      &sub,
      &sum,
      &where,
      // comparison
      &equal,
      &greater,
      &greater_or_equal,
      &less,
      &less_or_equal,
      &logical_and,
      &logical_or,
      &logical_xor,
      // cast
      &cast,
      &cast_like,
      &bit_cast,
  };
  return table;
}

}  // namespace tessera::ops
