// Cross-entropy of the softmax of scores with labels, and its gradient, each in one pass over the scores and without a
// tensor of probabilities.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// tessera::SoftmaxCrossEntropy(scores, labels) → losses, log_sum: with the C classes of the scores x along `axis`, and
// labels y of the shape of the scores without it,
//   log_sum = log Σ exp x_c;
//   losses = log_sum − (1 − s) x_y − s Σ x_c / C, where s is label_smoothing; 0 where y is ignore_index.
// Other labels outside of [0, C) are an error (failed) when it runs. log_sum is at least as wide as float32. Szegedy et
// al., arXiv:1512.00567, section 7.
extern const OpDef softmax_cross_entropy;

// tessera::SoftmaxCrossEntropyGradient(dLosses, scores, labels, log_sum) → dScores =
//   dLosses (exp(x_c − log_sum) − s / C − (1 − s) [c = y]); 0 where y is ignore_index.
extern const OpDef softmax_cross_entropy_gradient;

}  // namespace tessera::ops
