// Launches of QuantizeLinear and DequantizeLinear.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> quantisation_kernel_table();

}  // namespace tessera::backends::cuda
