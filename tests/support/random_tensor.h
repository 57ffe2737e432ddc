// Seeded random tensors for tests.
#pragma once

#include <cstdint>

#include "tessera/tensor.h"

namespace tessera::test {

// Uniform in [low, high] (integers inclusive), for every type but string and complex.
Tensor random_tensor(DType type, const Shape& shape, std::uint64_t seed, double low = -1, double high = 1);

}  // namespace tessera::test
