// Operand shapes of MatMul as batches of matrices (numpy.matmul): a vector on the left is a row, on the right a column.
// If the right operand has no batches and the rows of the left are contiguous, all of them form one product.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/products/gemm_f32.h"

namespace tessera::backends::cpu {

struct MatMulGeometry {
  GemmShape shape;
  std::vector<std::int64_t> left_offsets, right_offsets;  // of each batch's operands, in elements
  std::int64_t right_matrices = 1;
};

// The geometry of A · B, where the last two axes of transposed operands are swapped first.
MatMulGeometry matmul_geometry(Shape a, Shape b, bool transposed_left, bool transposed_right);

}  // namespace tessera::backends::cpu
