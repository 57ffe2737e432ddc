// The reject rule that several families of kernels share.
#pragma once

#include <string>

#include "ops/core/op.h"

namespace tessera::backends::cpu {

// Returns "" if input 0 of the node is float32, else why the kernel cannot take it.
std::string reject_unless_f32(const ops::NodeView& view);

}  // namespace tessera::backends::cpu
