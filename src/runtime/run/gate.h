// The public gate (tessera/gate.h) under the names that the runtime uses.
#pragma once

#include "tessera/gate.h"

namespace tessera::runtime {

using tessera::StepGate;
using tessera::StepInfo;

}  // namespace tessera::runtime
