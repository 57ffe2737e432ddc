// Kernels of one operand on bools, integers and f64, and tests of floats.
#pragma once

#include <vector>

#include "backends/backend.h"

namespace tessera::backends::cpu {

std::vector<KernelEntry> typed_unary_kernels();
// unary_f64.cpp
std::vector<KernelEntry> double_unary_kernels();

}  // namespace tessera::backends::cpu
