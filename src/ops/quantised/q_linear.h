// Operators of domain com.microsoft on tensors that are quantised with one scale and zero point each: real = scale · (q
// − zero_point).
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef q_linear_add, q_linear_mul, q_linear_concat, q_linear_average_pool, q_linear_global_average_pool,
    q_linear_leaky_relu, q_linear_sigmoid, q_linear_softmax, q_linear_where, q_linear_reduce_mean;

}  // namespace tessera::ops
