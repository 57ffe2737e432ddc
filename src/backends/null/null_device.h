// A device that accepts every operator and does nothing: planning and memory tests for any device, anywhere.
#pragma once

#include "backends/backend.h"

namespace tessera::backends {

const Device& null_device();

}  // namespace tessera::backends
