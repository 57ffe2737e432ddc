// Element-wise mathematical functions of one tensor; those of neural networks are in activation.h.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef abs, acos, acosh, asin, asinh, atan, atanh, bitwise_not, ceil, clip, cos, cosh, erf, exp, floor,
    is_inf, is_nan, log, logical_not, neg, reciprocal, round, sign, sin, sinh, sqrt, tan;

// y_i = f(x_i), of the same type and shape as x.
OpDef element_wise_unary(std::string_view name, int since, TypeSet types, double (*operations)(const NodeView&),
                         std::vector<AttributeSpec> attributes = {}, GradientFunction gradient = nullptr,
                         Traits traits = {});

}  // namespace tessera::ops
