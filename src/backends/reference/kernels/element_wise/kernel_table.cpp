#include "backends/reference/kernels/element_wise/kernel_table.h"

#include "backends/reference/kernels/element_wise/kernels.h"

namespace tessera::backends::reference {

std::span<const KernelEntry> element_wise_kernels() {
  static const KernelEntry table[] = {
      // element_wise_unary
      {.op = "Abs", .name = "reference_abs", .function = abs},
      {.op = "Acos", .name = "reference_acos", .function = acos},
      {.op = "Acosh", .name = "reference_acosh", .function = acosh},
      {.op = "Asin", .name = "reference_asin", .function = asin},
      {.op = "Asinh", .name = "reference_asinh", .function = asinh},
      {.op = "Atan", .name = "reference_atan", .function = atan},
      {.op = "Atanh", .name = "reference_atanh", .function = atanh},
      {.op = "BitwiseNot", .name = "reference_bitwise_not", .function = bitwise_not},
      {.op = "Ceil", .name = "reference_ceil", .function = ceil},
      {.op = "Clip", .name = "reference_clip", .function = clip},
      {.op = "Cos", .name = "reference_cos", .function = cos},
      {.op = "Cosh", .name = "reference_cosh", .function = cosh},
      {.op = "Erf", .name = "reference_erf", .function = erf},
      {.op = "Exp", .name = "reference_exp", .function = exp},
      {.op = "Floor", .name = "reference_floor", .function = floor},
      {.op = "IsInf", .name = "reference_is_inf", .function = is_inf},
      {.op = "IsNaN", .name = "reference_is_nan", .function = is_nan},
      {.op = "Log", .name = "reference_log", .function = log},
      {.op = "Not", .name = "reference_logical_not", .function = logical_not},
      {.op = "Neg", .name = "reference_neg", .function = neg},
      {.op = "Reciprocal", .name = "reference_reciprocal", .function = reciprocal},
      {.op = "Round", .name = "reference_round", .function = round},
      {.op = "Sign", .name = "reference_sign", .function = sign},
      {.op = "Sin", .name = "reference_sin", .function = sin},
      {.op = "Sinh", .name = "reference_sinh", .function = sinh},
      {.op = "Sqrt", .name = "reference_sqrt", .function = sqrt},
      {.op = "Tan", .name = "reference_tan", .function = tan},
      // activation
      {.op = "Celu", .name = "reference_celu", .function = celu},
      {.op = "Elu", .name = "reference_elu", .function = elu},
      {.op = "Gelu", .name = "reference_gelu", .function = gelu},
      {.op = "HardSigmoid", .name = "reference_hard_sigmoid", .function = hard_sigmoid},
      {.op = "HardSwish", .name = "reference_hard_swish", .function = hard_swish},
      {.op = "LeakyRelu", .name = "reference_leaky_relu", .function = leaky_relu},
      {.op = "Mish", .name = "reference_mish", .function = mish},
      {.op = "Relu", .name = "reference_relu", .function = relu},
      {.op = "Selu", .name = "reference_selu", .function = selu},
      {.op = "Shrink", .name = "reference_shrink", .function = shrink},
      {.op = "Sigmoid", .name = "reference_sigmoid", .function = sigmoid},
      {.op = "Softplus", .name = "reference_softplus", .function = softplus},
      {.op = "Softsign", .name = "reference_softsign", .function = softsign},
      {.op = "Swish", .name = "reference_swish", .function = swish},
      {.op = "Tanh", .name = "reference_tanh", .function = tanh},
      {.op = "ThresholdedRelu", .name = "reference_thresholded_relu", .function = thresholded_relu},
      // element_wise_binary
      {.op = "Add", .name = "reference_add", .function = add},
      {.op = "BitShift", .name = "reference_bit_shift", .function = bit_shift},
      {.op = "BitwiseAnd", .name = "reference_bitwise_and", .function = bitwise_and},
      {.op = "BitwiseOr", .name = "reference_bitwise_or", .function = bitwise_or},
      {.op = "BitwiseXor", .name = "reference_bitwise_xor", .function = bitwise_xor},
      {.op = "Div", .name = "reference_div", .function = div},
      {.op = "Max", .name = "reference_max", .function = max},
      {.op = "Mean", .name = "reference_mean", .function = mean},
      {.op = "Min", .name = "reference_min", .function = min},
      {.op = "Mod", .name = "reference_mod", .function = mod},
      {.op = "Mul", .name = "reference_mul", .function = mul},
      {.op = "PRelu", .name = "reference_p_relu", .function = p_relu},
      {.op = "Pow", .name = "reference_pow", .function = pow},
      {.op = "Sub", .name = "reference_sub", .function = sub},
      {.op = "Sum", .name = "reference_sum", .function = sum},
      {.op = "Where", .name = "reference_where", .function = where},
      // comparison
      {.op = "Equal", .name = "reference_equal", .function = equal},
      {.op = "Greater", .name = "reference_greater", .function = greater},
      {.op = "GreaterOrEqual", .name = "reference_greater_or_equal", .function = greater_or_equal},
      {.op = "Less", .name = "reference_less", .function = less},
      {.op = "LessOrEqual", .name = "reference_less_or_equal", .function = less_or_equal},
      {.op = "And", .name = "reference_logical_and", .function = logical_and},
      {.op = "Or", .name = "reference_logical_or", .function = logical_or},
      {.op = "Xor", .name = "reference_logical_xor", .function = logical_xor},
      // cast
      {.op = "Cast", .name = "reference_cast", .function = cast},
      {.op = "CastLike", .name = "reference_cast_like", .function = cast_like},
      {.op = "BitCast", .name = "reference_bit_cast", .function = bit_cast},
  };
  return table;
}

}  // namespace tessera::backends::reference
