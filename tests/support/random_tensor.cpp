#include "support/random_tensor.h"

#include <cmath>
#include <vector>

#include "backends/host/numeric.h"
#include "base/numbers/philox.h"

namespace tessera::test {

Tensor random_tensor(DType type, const Shape& shape, std::uint64_t seed, double low, double high) {
  Tensor tensor(type, shape);
  base::Philox random(seed);
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  for (double& value : values) {
    value = low + (high - low) * random.next_uniform();
    if (!is_float(type)) value = std::floor(low + (high - low + 1) * random.next_uniform());
  }
  backends::host::write(values, tensor);
  return tensor;
}

}  // namespace tessera::test
