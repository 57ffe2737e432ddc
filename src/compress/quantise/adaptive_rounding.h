// Adaptive rounding: whether each weight is rounded down or up is chosen so that the layer's outputs change least, not
// the weights themselves (M. Nagel et al., "Up or Down? Adaptive Rounding for Post-Training Quantization", ICML 2020,
// arXiv:2004.10568).
#pragma once

#include <cstdint>
#include <functional>

#include "tessera/session.h"

namespace tessera::compress {

struct RoundingProblem {
  Tensor weights;  // f32 [groups, rows, inputs]: a row makes one output channel from the inputs of its group
  Tensor scales;   // f32 [groups, rows, blocks]: `block` weights along the inputs share one
  std::int64_t block = 0;
  Tensor moments;                // f32 [groups, inputs, inputs]: of each group's inputs x, the sum of x xᵀ over samples
  int least = -127, most = 127;  // of the integers
};

struct RoundingOptions {
  int steps = 500;  // of the optimiser
  SessionOptions session;
  std::function<void(double done)> progress = {};  // `done` is from 0 to 1
};

// The nearest integers, clipped to the range: round(weight / scale), i8 in the weights' shape.
Tensor round_to_nearest(const RoundingProblem& problem);

// Integers, each the one below or above weight / scale, for which the squared error of the layer's outputs is no larger
// than with round_to_nearest, and usually much smaller. The error is the sum of dᵀ M d over the rows, with a row's d =
// weights - scale * integers and its group's moments M. Adam moves a rectified sigmoid h(V) in [0, 1] for each weight,
// with the penalty 1 - |2 h - 1|^β, whose β falls from 20 to 2, against values between 0 and 1 (equations 21 to 24);
// then single weights switch to the other integer while that lowers the error. Needs memory for the moments twice and
// for 2^20 weights at a time. The result does not depend on the number of threads. Throws Error as sessions do.
Tensor round_adaptively(const RoundingProblem& problem, const RoundingOptions& options);

// The sum of dᵀ M d over all rows.
double output_error(const RoundingProblem& problem, const Tensor& integers);

}  // namespace tessera::compress
