// Batch normalisation by the statistics of the batch for training: the forward operator returns the statistics, the
// gradient operator reads them.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// tessera::BatchNormTraining(X, scale, B, addend) → Y, mean, variance. With mean and variance (of the population) those
// of each channel of X over all other axes:
//   v = (X − mean) / sqrt(variance + epsilon) · scale + B, plus the addend, of X's shape, where there is one;
//   Y = relu ? max(v, 0) : v.
// The channels lie along `channel_axis`, 1 unless it is given, so that passes can store them last. Mean and variance
// are at least as wide as float32. Ioffe and Szegedy, arXiv:1502.03167.
extern const OpDef batch_norm_training;

// tessera::BatchNormTrainingGradient(dY, X, scale, mean, variance, Y) → dX, dScale, dB, dAddend: with
// x̂ = (X − mean) / sqrt(variance + epsilon), and g = dY, or with relu dY where Y is above 0 and 0 elsewhere:
//   dAddend = g; dB = Σ g; dScale = Σ g x̂; dX = scale / sqrt(variance + epsilon) · (g − Σ g / n − x̂ Σ g x̂ / n),
// sums being over the n elements of a channel. Y is there with relu alone; dAddend need not be asked for.
extern const OpDef batch_norm_training_gradient;

}  // namespace tessera::ops
