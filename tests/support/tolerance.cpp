#include "support/tolerance.h"

#include <algorithm>
#include <cmath>

#include "backends/host/numeric.h"

namespace tessera::test {

Tolerance Tolerance::epsilons(DType type, double n) {
  double epsilon = 0;
  switch (type) {
    case DType::f64:
      epsilon = 0x1p-52;
      break;
    case DType::f32:
      epsilon = 0x1p-23;
      break;
    case DType::f16:
      epsilon = 0x1p-10;
      break;
    case DType::bf16:
      epsilon = 0x1p-7;
      break;
    default:
      break;
  }
  return {n * epsilon, n * epsilon};
}

testing::AssertionResult close_to(const Tensor& actual, const Tensor& expected, Tolerance tolerance) {
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape()) {
    return testing::AssertionFailure() << "got " << name_of(actual.dtype()) << to_string(actual.shape())
                                       << ", expected " << name_of(expected.dtype()) << to_string(expected.shape());
  }
  if (!is_float(actual.dtype())) {
    return identical(actual, expected) ? testing::AssertionSuccess()
                                       : testing::AssertionFailure() << "integer, bool or string values differ";
  }
  const std::vector<double> a = backends::host::read<double>(actual), b = backends::host::read<double>(expected);
  std::string report;
  int wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (same || std::fabs(a[i] - b[i]) <= tolerance.absolute + tolerance.relative * std::fabs(b[i])) continue;
    if (++wrong <= 5)
      report +=
          "  [" + std::to_string(i) + "] got " + std::to_string(a[i]) + ", expected " + std::to_string(b[i]) + "\n";
  }
  if (wrong == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << wrong << " of " << a.size() << " elements differ:\n" << report;
}

}  // namespace tessera::test
