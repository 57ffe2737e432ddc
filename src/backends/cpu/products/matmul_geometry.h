// Operand shapes of MatMul brought to batches of matrices (numpy.matmul): a vector on the left is a row, on the right a
// column. A right operand without batches turns all rows of the left into one product, where they lie one behind the
// other.
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

// Of operands whose last two axes are swapped first, where they are transposed.
MatMulGeometry matmul_geometry(Shape a, Shape b, bool transposed_left, bool transposed_right);

}  // namespace tessera::backends::cpu
