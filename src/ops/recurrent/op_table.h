#pragma once

#include <span>

#include "ops/core/op.h"

namespace tessera::ops {

// The operators of this folder, grouped by the file that defines them.
std::span<const OpDef* const> recurrent_ops();

}  // namespace tessera::ops
