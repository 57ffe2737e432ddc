// Statistics of a tensor's numbers.
#pragma once

#include <cstdint>

#include "tessera/tensor.h"

namespace tessera::report {

struct TensorStatistics {
  bool known = false;  // false for strings, complex numbers, and tensors without finite elements
  double minimum = 0, maximum = 0, mean = 0,
         deviation = 0;         // over the finite elements; `deviation` is the standard deviation of the population
  double zeros = 0;             // fraction of the elements that are 0
  std::int64_t not_finite = 0;  // NaN and infinities
};

// Reads all elements block by block, and sums in double precision.
TensorStatistics statistics_of(const Tensor& tensor);

}  // namespace tessera::report
