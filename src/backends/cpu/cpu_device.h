// Fast kernels for x86-64 and, through the portable path, other CPUs.
#pragma once

#include "backends/backend.h"

namespace tessera::backends {

const Device& cpu_device();

}  // namespace tessera::backends
