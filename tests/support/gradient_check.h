// Compares the gradients that operators state with central differences.
#pragma once

#include "support/run_op.h"

namespace tessera::test {

struct GradientCheck {
  double step = 1e-5;
  double tolerance =
      1e-7;  // |stated - numeric| <= tolerance * (1 + |numeric|); see also the rounding of differences in f32
  bool symbolic = true;         // also with inputs whose dimensions are names only
  std::uint32_t constants = 0;  // bit i: input i is a constant, though it has floats
};

// The gradients of a weighted sum of the operator's float outputs with respect to each of its float inputs; other
// inputs are constants. Runs on the reference device. Adds test failures.
void expect_gradient(const OpCall& call, const GradientCheck& check = {});

}  // namespace tessera::test
