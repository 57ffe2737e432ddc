#include "backends/reference/kernels/products/kernel_table.h"

#include "backends/reference/kernels/products/kernels.h"

namespace tessera::backends::reference {

std::span<const KernelEntry> product_kernels() {
  static const KernelEntry table[] = {
      // block_linear
      {.op = "tessera::BlockLinear", .name = "reference_block_linear", .function = block_linear},
      // determinant
      {.op = "Det", .name = "reference_det", .function = det},
      {.op = "tessera::DetGradient", .name = "reference_det_gradient", .function = det_gradient},
      // inverse
      {.op = "com.microsoft::Inverse", .name = "reference_inverse", .function = inverse},
      // einsum
      {.op = "Einsum", .name = "reference_einsum", .function = einsum},
      // matrix_product
      {.op = "MatMul", .name = "reference_matmul", .function = matmul},
      {.op = "Gemm", .name = "reference_gemm", .function = gemm},
      {.op = "MatMulInteger", .name = "reference_matmul_integer", .function = matmul_integer},
      {.op = "QLinearMatMul", .name = "reference_qlinear_matmul", .function = qlinear_matmul},
  };
  return table;
}

}  // namespace tessera::backends::reference
