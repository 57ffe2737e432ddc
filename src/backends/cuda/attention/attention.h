// Launches of scaled dot-product attention.
#pragma once

#include <span>

#include "backends/backend.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> attention_kernel_table();

}  // namespace tessera::backends::cuda
