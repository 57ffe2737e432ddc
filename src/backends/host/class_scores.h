// Transforms of rows of scores, shared by the models of ai.onnx.ml.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "ops/classical/tree_ensemble.h"

namespace tessera::backends::host {

// sqrt(2) erfinv(2 p - 1), the quantile of the standard normal distribution; infinite at 0 and 1, NaN outside.
inline double probit(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
  double low = -40, high = 40;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Transforms a row in place. softmax_zero leaves scores of (nearly) 0 out of the sum.
inline void transform_scores(std::span<double> row, ops::PostTransform transform) {
  if (transform == ops::PostTransform::none || row.empty()) return;
  if (transform == ops::PostTransform::logistic) {
    for (double& x : row) x = 1 / (1 + std::exp(-x));
    return;
  }
  if (transform == ops::PostTransform::probit) {
    for (double& x : row) x = probit(x);
    return;
  }
  const bool keep_zeros = transform == ops::PostTransform::softmax_zero;
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (double& x : row) {
    const bool zero = keep_zeros && std::abs(x) <= 1e-7;
    x = zero ? x * std::exp(-largest) : std::exp(x - largest);
    if (!zero) sum += x;
  }
  for (double& x : row) x = sum == 0 ? x : x / sum;
}

}  // namespace tessera::backends::host
