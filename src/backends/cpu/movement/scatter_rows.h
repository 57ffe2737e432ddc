// Adds rows, for the gradients of look-ups.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// to[i] += from[i]
void add_row(const float* from, float* to, std::int64_t count);

}  // namespace tessera::backends::cpu
