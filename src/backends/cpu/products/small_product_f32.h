// Float32 products so small that packing both operands, as GemmF32 does, takes as long as multiplying: the left one is
// read where it lies, the right one too unless it is transposed, which a panel undoes. Each sum is GemmF32's: over k,
// in order.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// C = A·B, row-major: A is m × k, B is k × n, C is m × n.
struct SmallProduct {
  std::int64_t m = 0, n = 0, k = 0;
  bool transposed_left = false, transposed_right = false;  // what is given is k × m, n × k
  bool symmetric = false;  // B is A transposed, of the same memory: what lies above the diagonal is copied from below
};

// Whether the panel is small enough and there are rows enough to be worth it.
bool small_product_fits(const SmallProduct& product);
// C does not overlap A and B.
void small_product(const SmallProduct& product, const float* a, const float* b, float* c);

}  // namespace tessera::backends::cpu
