// How far numbers are from those that were expected.
#pragma once

#include <cstdint>
#include <memory>

#include "train/evaluation/metrics.h"

namespace tessera::train {

enum class Regression : std::uint8_t { r2, mae, mse, rmse };

// Over the elements of each output, and then the mean over the outputs, as scikit-learn has them; outputs are the
// elements of a sample:
//   mae   mean of |p − t|;  mse  mean of (p − t)²;  rmse  √mse
//   r2    1 − Σ (p − t)² / Σ (t − mean of t)²; where all targets are equal 1 for predictions that equal them, else 0
// Predictions and targets have the same elements: equal shapes, or shapes that differ in dimensions of 1 alone. Throws
// Error(invalid_argument) for others.
std::unique_ptr<Metric> make_regression_metric(Regression kind);

}  // namespace tessera::train
