// The factors of Dropout, for kernels that apply it to values that they never store.
#pragma once

#include <cstdint>

#include "base/numbers/philox.h"

namespace tessera::backends::cpu {

// factors[i] = 1 / (1 - ratio) if Dropout with these random numbers keeps element first + i, else 0.
void dropout_factors(const base::Philox& random, double ratio, std::int64_t first, std::int64_t count, float* factors);

}  // namespace tessera::backends::cpu
