// Comparing tensors: integers, bools and strings must be equal, floats close.
#pragma once

#include <gtest/gtest.h>

#include "tessera/tensor.h"

namespace tessera::test {

struct Tolerance {
  double relative = 0;
  double absolute = 0;
  // `n` epsilons of the type, relative and absolute; the scale suits values around 1. Multiply n by the square root of
  // the reduction length for sums.
  static Tolerance epsilons(DType type, double n);
};

// |actual - expected| <= absolute + relative * |expected| for each element; NaN matches NaN, infinities match exactly.
// Reports type and shape differences, and the first few elements that part.
testing::AssertionResult close_to(const Tensor& actual, const Tensor& expected, Tolerance tolerance = {});

}  // namespace tessera::test
