#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// Gaussian elimination with partial pivoting; destroys the matrix.
double determinant(const KernelContext& context, double* matrix, std::int64_t n) {
  double result = 1;
  for (std::int64_t column = 0; column < n; ++column) {
    context.check_stop();
    std::int64_t pivot = column;
    for (std::int64_t row = column + 1; row < n; ++row) {
      if (std::fabs(matrix[row * n + column]) > std::fabs(matrix[pivot * n + column])) pivot = row;
    }
    if (matrix[pivot * n + column] == 0) return 0;
    if (pivot != column) {
      result = -result;
      for (std::int64_t k = 0; k < n; ++k) std::swap(matrix[pivot * n + k], matrix[column * n + k]);
    }
    result *= matrix[column * n + column];
    for (std::int64_t row = column + 1; row < n; ++row) {
      const double factor = matrix[row * n + column] / matrix[column * n + column];
      for (std::int64_t k = column; k < n; ++k) matrix[row * n + k] -= factor * matrix[column * n + k];
    }
  }
  return result;
}

// The cofactor: the determinant without row `row` and column `column`, with the sign of their position.
double cofactor(const KernelContext& context, const double* matrix, std::int64_t n, std::int64_t row,
                std::int64_t column) {
  std::vector<double> minor;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      if (i != row && j != column) minor.push_back(matrix[i * n + j]);
    }
  }
  return ((row + column) % 2 == 0 ? 1 : -1) * determinant(context, minor.data(), n - 1);
}

}  // namespace

void det(KernelContext& context) {
  std::vector<double> matrices = read<double>(context.input(0));
  const std::int64_t n = context.input(0).shape().back();
  std::vector<double> results = transient_vector<double>(context.output(0).elements());
  for (std::size_t i = 0; i < results.size(); ++i)
    results[i] = determinant(context, matrices.data() + static_cast<std::int64_t>(i) * n * n, n);
  write(results, context.output(0));
}

void det_gradient(KernelContext& context) {
  const std::vector<double> matrices = read<double>(context.input(0)), given = read<double>(context.input(1));
  const std::int64_t n = context.input(0).shape().back();
  std::vector<double> results = transient_vector<double>(context.input(0).elements());
  context.parallel_for(static_cast<std::int64_t>(results.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t which = i / (n * n);
      results[static_cast<std::size_t>(i)] = given[static_cast<std::size_t>(which)] *
                                             cofactor(context, matrices.data() + which * n * n, n, i / n % n, i % n);
    }
  });
  write(results, context.output(0));
}

}  // namespace tessera::backends::reference
