// The rewriting functions of upgrade.cpp's table, by file. What each changes stands at its definition.
#pragma once

#include "io/onnx/upgrade.h"

namespace tessera::io {

// upgrade_inputs.cpp: attributes that became inputs
void axes_to_input(Upgrade& upgrade);

}  // namespace tessera::io
