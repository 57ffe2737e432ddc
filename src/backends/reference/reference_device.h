// The reference device: slow, simple and complete. Every fast kernel is tested against it.
#pragma once

#include "backends/backend.h"

namespace tessera::backends {

const Device& reference_device();
// The reference kernels, for devices that fall back on them openly (`tessera info --plan` shows "reference_…" as the
// chosen kernel).
std::span<const KernelEntry> reference_kernel_table();

}  // namespace tessera::backends
