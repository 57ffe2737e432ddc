// A device that accepts every operator and computes nothing, for tests of planning and memory on any machine.
#pragma once

#include "backends/backend.h"

namespace tessera::backends {

const Device& null_device();

}  // namespace tessera::backends
