#include "backends/cpu/element_wise/kernel_table.h"

#include <vector>

#include "backends/cpu/element_wise/element_wise_unary.h"
#include "backends/cpu/element_wise/kernels.h"
#include "backends/cpu/element_wise/typed_unary.h"
#include "backends/cpu/machine/operand_rules.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> element_wise_kernels() {
  static const std::vector<KernelEntry> table = [] {
    std::vector<KernelEntry> entries{
        // cast
        {.op = "Cast", .name = "cpu_cast", .reject = reject_cast, .create = make_cast},
        {.op = "CastLike", .name = "cpu_cast_like", .reject = reject_cast, .create = make_cast},
        // comparison
        {.op = "Equal", .name = "cpu_equal", .reject = reject_comparison, .create = make_comparison},
        {.op = "Greater", .name = "cpu_greater", .reject = reject_comparison, .create = make_comparison},
        {.op = "GreaterOrEqual",
         .name = "cpu_greater_or_equal",
         .reject = reject_comparison,
         .create = make_comparison},
        {.op = "Less", .name = "cpu_less", .reject = reject_comparison, .create = make_comparison},
        {.op = "LessOrEqual", .name = "cpu_less_or_equal", .reject = reject_comparison, .create = make_comparison},
        {.op = "And", .name = "cpu_and", .reject = reject_comparison, .create = make_comparison},
        {.op = "Or", .name = "cpu_or", .reject = reject_comparison, .create = make_comparison},
        {.op = "Xor", .name = "cpu_xor", .reject = reject_comparison, .create = make_comparison},
        // dropout
        {.op = "Dropout", .name = "cpu_dropout", .reject = reject_dropout, .function = dropout, .in_place_inputs = 1},
        // element_wise_binary
        {.op = "Add", .name = "cpu_add", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 3},
        {.op = "Sub", .name = "cpu_sub", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 3},
        {.op = "Mul", .name = "cpu_mul", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 3},
        {.op = "Div", .name = "cpu_div", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 3},
        {.op = "Mod", .name = "cpu_mod", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 3},
        {.op = "Max", .name = "cpu_max", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 1},
        {.op = "Min", .name = "cpu_min", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 1},
        {.op = "Sum", .name = "cpu_sum", .reject = reject_arithmetic, .create = make_arithmetic, .in_place_inputs = 1},
        {.op = "PRelu",
         .name = "cpu_p_relu",
         .reject = reject_arithmetic,
         .create = make_arithmetic,
         .in_place_inputs = 3},
        {.op = "BitShift",
         .name = "cpu_bit_shift",
         .reject = reject_arithmetic,
         .create = make_arithmetic,
         .in_place_inputs = 3},
        {.op = "BitwiseAnd",
         .name = "cpu_bitwise_and",
         .reject = reject_arithmetic,
         .create = make_arithmetic,
         .in_place_inputs = 3},
        {.op = "BitwiseOr",
         .name = "cpu_bitwise_or",
         .reject = reject_arithmetic,
         .create = make_arithmetic,
         .in_place_inputs = 3},
        {.op = "BitwiseXor",
         .name = "cpu_bitwise_xor",
         .reject = reject_arithmetic,
         .create = make_arithmetic,
         .in_place_inputs = 3},
        {.op = "Pow", .name = "cpu_pow", .reject = reject_pow, .create = make_pow, .in_place_inputs = 1},
        // element_wise_where
        {.op = "Where", .name = "cpu_where", .reject = reject_where, .create = make_where, .in_place_inputs = 6},
        // element_wise_program
        {.op = "tessera::ElementWise",
         .name = "cpu_element_wise_f32",
         .reject = reject_element_wise_f32,
         .avoid = avoid_element_wise,
         .create = make_element_wise,
         .in_place_inputs = 0xff},
        {.op = "tessera::ElementWise",
         .name = "cpu_element_wise",
         .reject = reject_element_wise,
         .avoid = avoid_element_wise,
         .create = make_element_wise},
    };
    for (const std::vector<KernelEntry>& more : {unary_kernels(), typed_unary_kernels(), double_unary_kernels()})
      entries.insert(entries.end(), more.begin(), more.end());
    return entries;
  }();
  return table;
}

}  // namespace tessera::backends::cpu
