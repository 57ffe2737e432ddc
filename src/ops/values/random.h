// Random tensors. Numbers are Philox's (base/numbers/philox.h): the same for the same seed on every machine.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef bernoulli, multinomial, random_normal, random_normal_like, random_uniform, random_uniform_like;

}  // namespace tessera::ops
