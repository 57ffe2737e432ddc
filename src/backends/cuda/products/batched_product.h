// Products of matrices that are both computed, such as those of attention.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::cuda {

// MatMul of operands of two or more axes, of which those before the last two broadcast.
KernelEntry batched_product_entry();

}  // namespace tessera::backends::cuda
