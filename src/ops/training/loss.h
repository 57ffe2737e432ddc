// Classification losses: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef negative_log_likelihood_loss, softmax_cross_entropy_loss;

}  // namespace tessera::ops
