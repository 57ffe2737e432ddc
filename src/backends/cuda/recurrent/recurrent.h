// Launches of LSTM and GRU.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> recurrent_kernel_table();

}  // namespace tessera::backends::cuda
