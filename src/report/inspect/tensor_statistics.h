// What the numbers of a tensor are like, in a few figures.
#pragma once

#include <cstdint>

#include "tessera/tensor.h"

namespace tessera::report {

struct TensorStatistics {
  bool known = false;  // false: strings, complex numbers, no elements, or none that is finite
  double minimum = 0, maximum = 0, mean = 0,
         deviation = 0;         // of the finite elements; deviation: standard deviation of the population
  double zeros = 0;             // share of the elements that are 0, from 0 to 1
  std::int64_t not_finite = 0;  // NaN and infinities
};

// Reads all elements, a block of them at a time, and sums in double precision.
TensorStatistics statistics_of(const Tensor& tensor);

}  // namespace tessera::report
