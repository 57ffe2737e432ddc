#include "backends/cpu/products/kernel_table.h"

#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/products/kernels.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> product_kernels() {
  static const KernelEntry table[] = {
      // linear
      {.op = "tessera::Linear",
       .name = "cpu_linear_of_few_rows",
       .reject = reject_linear_of_few_rows,
       .avoid = avoid_linear_of_few_rows,
       .create = make_linear_of_few_rows},
      {.op = "tessera::Linear", .name = "cpu_linear", .reject = reject_linear, .create = make_linear},
      {.op = "tessera::Linear",
       .name = "cpu_indirect_linear",
       .reject = reject_indirect_linear,
       .create = make_indirect_linear,
       .in_place_inputs = 1 << 3},
      // matmul
      {.op = "MatMul", .name = "cpu_matmul_f32", .reject = reject_unless_f32, .create = make_matmul},
      {.op = "tessera::TransposedMatMul",
       .name = "cpu_transposed_matmul_f32",
       .reject = reject_unless_f32,
       .create = make_matmul},
      {.op = "Gemm", .name = "cpu_gemm_f32", .reject = reject_unless_f32, .create = make_gemm},
      // matmul_integer
      {.op = "MatMulInteger",
       .name = "cpu_matmul_integer",
       .reject = reject_matmul_integer,
       .create = make_matmul_integer},
      {.op = "QLinearMatMul",
       .name = "cpu_qlinear_matmul",
       .reject = reject_qlinear_matmul,
       .create = make_matmul_integer},
      // matmul_n_bits
      {.op = "com.microsoft::MatMulNBits",
       .name = "cpu_matmul_n_bits",
       .reject = reject_matmul_n_bits,
       .create = make_matmul_n_bits},
  };
  return table;
}

}  // namespace tessera::backends::cpu
