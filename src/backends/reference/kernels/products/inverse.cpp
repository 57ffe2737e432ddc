#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// Inverts by Gauss-Jordan elimination with partial pivoting: `matrix` becomes the unit matrix, and `result`, initially
// the unit matrix, becomes the inverse.
void invert(const KernelContext& context, double* matrix, double* result, std::int64_t n) {
  for (std::int64_t column = 0; column < n; ++column) {
    context.check_stop();
    std::int64_t pivot = column;
    for (std::int64_t row = column + 1; row < n; ++row) {
      if (std::fabs(matrix[row * n + column]) > std::fabs(matrix[pivot * n + column])) pivot = row;
    }
    const double factor = 1 / matrix[pivot * n + column];
    for (std::int64_t k = 0; k < n; ++k) {
      std::swap(matrix[pivot * n + k], matrix[column * n + k]);
      std::swap(result[pivot * n + k], result[column * n + k]);
      matrix[column * n + k] *= factor;
      result[column * n + k] *= factor;
    }
    for (std::int64_t row = 0; row < n; ++row) {
      const double share = matrix[row * n + column];
      for (std::int64_t k = 0; row != column && k < n; ++k) {
        matrix[row * n + k] -= share * matrix[column * n + k];
        result[row * n + k] -= share * result[column * n + k];
      }
    }
  }
}

}  // namespace

void inverse(KernelContext& context) {
  std::vector<double> matrices = read<double>(context.input(0));
  const std::int64_t n = context.input(0).shape().back();
  std::vector<double> results = transient_vector<double>(static_cast<std::int64_t>(matrices.size()), 0.0);
  for (std::size_t first = 0; first < matrices.size(); first += static_cast<std::size_t>(n * n)) {
    for (std::int64_t i = 0; i < n; ++i) results[first + static_cast<std::size_t>(i * n + i)] = 1;
    invert(context, matrices.data() + first, results.data() + first, n);
  }
  write(results, context.output(0));
}

}  // namespace tessera::backends::reference
