// Softmax, LogSoftmax and Hardmax along one axis.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef hardmax, log_softmax, softmax;

}  // namespace tessera::ops
