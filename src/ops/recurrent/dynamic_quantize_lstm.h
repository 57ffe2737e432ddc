// DynamicQuantizeLSTM of domain com.microsoft: LSTM with 8-bit weights, whose inputs and states are quantised as it
// runs.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef dynamic_quantize_lstm;

}  // namespace tessera::ops
