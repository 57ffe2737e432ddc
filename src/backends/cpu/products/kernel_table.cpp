#include "backends/cpu/products/kernel_table.h"

#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/products/kernels.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> product_kernels() {
  static const KernelEntry table[] = {
      // sparse_linear in bfloat16
      {.op = "tessera::Linear",
       .name = "cpu_bf16_sparse_linear",
       .reject = reject_sparse_linear_bf16,
       .avoid = avoid_sparse_linear,
       .create = make_sparse_linear},
      // linear_bf16
      {.op = "tessera::Linear",
       .name = "cpu_bf16_linear",
       .reject = reject_linear_bf16,
       .create = make_linear_bf16,
       .in_place_inputs = 1 << 3},
      // sparse_linear_s8
      {.op = "tessera::QuantisedLinear",
       .name = "cpu_quantised_sparse_linear",
       .reject = reject_sparse_linear_s8,
       .avoid = avoid_sparse_linear_s8,
       .create = make_sparse_linear_s8,
       .in_place_inputs = 1 << 8},
      // linear_s8
      {.op = "tessera::QuantisedLinear",
       .name = "cpu_quantised_linear",
       .reject = reject_linear_s8,
       .create = make_linear_s8,
       .in_place_inputs = 1 << 8},
      // sparse_linear
      {.op = "tessera::Linear",
       .name = "cpu_sparse_linear",
       .reject = reject_sparse_linear_f32,
       .avoid = avoid_sparse_linear,
       .create = make_sparse_linear},
      {.op = "MatMul",
       .name = "cpu_sparse_matmul",
       .reject = reject_sparse_linear_f32,
       .avoid = avoid_sparse_linear,
       .create = make_sparse_linear},
      {.op = "Gemm",
       .name = "cpu_sparse_gemm",
       .reject = reject_sparse_linear_f32,
       .avoid = avoid_sparse_linear,
       .create = make_sparse_linear},
      // linear_few_rows_f32, linear_f32
      {.op = "tessera::Linear",
       .name = "cpu_linear_of_few_rows",
       .reject = reject_linear_few_rows_f32,
       .avoid = avoid_linear_few_rows_f32,
       .create = make_linear_few_rows_f32},
      {.op = "tessera::Linear", .name = "cpu_linear", .reject = reject_linear_f32, .create = make_linear_f32},
      {.op = "tessera::Linear",
       .name = "cpu_indirect_linear",
       .reject = reject_indirect_linear_f32,
       .create = make_indirect_linear_f32,
       .in_place_inputs = 1 << 3},
      // matmul_f32
      {.op = "MatMul", .name = "cpu_matmul_f32", .reject = reject_unless_f32, .create = make_matmul_f32},
      {.op = "tessera::TransposedMatMul",
       .name = "cpu_transposed_matmul_f32",
       .reject = reject_unless_f32,
       .create = make_matmul_f32},
      {.op = "Gemm", .name = "cpu_gemm_f32", .reject = reject_unless_f32, .create = make_gemm_f32},
      // matmul_typed
      {.op = "MatMul", .name = "cpu_matmul_typed", .reject = reject_matmul_typed, .create = make_matmul_typed},
      {.op = "Gemm", .name = "cpu_gemm_typed", .reject = reject_gemm_typed, .create = make_gemm_typed},
      // packed_block_linear
      {.op = "tessera::BlockLinear",
       .name = "cpu_packed_block_linear",
       .reject = reject_packed_block_linear,
       .create = make_packed_block_linear},
      // packed_matmul_n_bits
      {.op = "com.microsoft::MatMulNBits",
       .name = "cpu_packed_matmul_n_bits",
       .reject = reject_packed_matmul_n_bits,
       .create = make_packed_matmul_n_bits},
      // matmul_s8
      {.op = "MatMulInteger", .name = "cpu_matmul_integer", .reject = reject_matmul_s8, .create = make_matmul_s8},
      {.op = "QLinearMatMul",
       .name = "cpu_qlinear_matmul",
       .reject = reject_qlinear_matmul_s8,
       .create = make_matmul_s8},
      // block_linear
      {.op = "tessera::BlockLinear", .name = "cpu_block_linear", .create = make_block_linear},
      // matmul_n_bits
      {.op = "com.microsoft::MatMulNBits",
       .name = "cpu_matmul_n_bits",
       .reject = reject_matmul_n_bits,
       .create = make_matmul_n_bits},
  };
  return table;
}

}  // namespace tessera::backends::cpu
