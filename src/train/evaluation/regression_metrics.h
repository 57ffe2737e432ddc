// Metrics of predicted numbers.
#pragma once

#include <cstdint>
#include <memory>

#include "train/evaluation/metrics.h"

namespace tessera::train {

enum class Regression : std::uint8_t { r2, mae, mse, rmse };

// Computed over the elements of each output, and then averaged over the outputs, as in scikit-learn; outputs are the
// elements of a sample:
//   mae   mean of |p − t|;  mse  mean of (p − t)²;  rmse  √mse
//   r2    1 − Σ (p − t)² / Σ (t − mean of t)²; if all targets are equal, 1 for predictions that equal them, else 0
// Predictions and targets must have the same shape, except for dimensions of 1. Throws Error(invalid_argument) for
// others.
std::unique_ptr<Metric> make_regression_metric(Regression kind);

}  // namespace tessera::train
