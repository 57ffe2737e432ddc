// Launches of softmax and normalisations along the last axis.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> rows_kernel_table();

}  // namespace tessera::backends::cuda
