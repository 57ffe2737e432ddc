// ReverseSequence: the first sequence_lens[b] time steps of each batch entry, back to front; the rest stays.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef reverse_sequence;

}  // namespace tessera::ops
