#include "ops/products/op_table.h"

#include "ops/products/block_linear.h"
#include "ops/products/determinant.h"
#include "ops/products/einsum.h"
#include "ops/products/fused_matmul.h"
#include "ops/products/inverse.h"
#include "ops/products/linear.h"
#include "ops/products/matrix_product.h"

namespace tessera::ops {

std::span<const OpDef* const> product_ops() {
  static constexpr const OpDef* table[] = {
      // block_linear
      &block_linear,
      // determinant
      &det,
      &det_gradient,
      // einsum
      &einsum,
      // matrix_product
      &matmul,
      &gemm,
      &matmul_integer,
      &qlinear_matmul,
      // fused_matmul
      &fused_matmul,
      &fused_gemm,
      &transposed_matmul,
      // linear
      &linear,
      // inverse
      &inverse,
  };
  return table;
}

}  // namespace tessera::ops
