// Float32 products so small that packing both operands, as GemmF32 does, would take as long as multiplying. The left
// operand is read in place; so is the right one unless it is transposed, in which case it is copied to a panel. Each
// sum is equal to GemmF32's: over k, in order.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// C = A·B, row-major: A is m × k, B is k × n, C is m × n.
struct SmallProduct {
  std::int64_t m = 0, n = 0, k = 0;
  bool transposed_left = false, transposed_right = false;  // operands are stored as k × m, n × k
  bool symmetric = false;  // B is A transposed, in the same memory: the upper triangle is copied from the lower
};

// Whether the panel is small enough and there are enough rows for a gain over GemmF32.
bool small_product_fits(const SmallProduct& product);
// C does not overlap A and B.
void small_product(const SmallProduct& product, const float* a, const float* b, float* c);

}  // namespace tessera::backends::cpu
