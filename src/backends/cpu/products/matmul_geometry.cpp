#include "backends/cpu/products/matmul_geometry.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

std::int64_t checked_product(std::span<const std::int64_t> dims) {
  std::int64_t result = 1;
  for (const std::int64_t dim : dims) result = base::checked_multiply(result, dim);
  return result;
}

}  // namespace

MatMulGeometry matmul_geometry(Shape a, Shape b, bool transposed_left, bool transposed_right) {
  if (transposed_left && a.size() > 1) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (transposed_right && b.size() > 1) std::swap(b[b.size() - 1], b[b.size() - 2]);
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  MatMulGeometry result{{a[a.size() - 2], b.back(), a.back()}, {}, {}};
  const std::span<const std::int64_t> a_batch(a.data(), a.size() - 2), b_batch(b.data(), b.size() - 2);
  result.right_matrices = checked_product(b_batch);
  if (result.right_matrices == 1 && b_batch.size() <= a_batch.size() &&
      (!transposed_left || checked_product(a_batch) == 1)) {
    result.shape.m = base::checked_multiply(result.shape.m, checked_product(a_batch));
    result.left_offsets = result.right_offsets = {0};
    return result;
  }
  // Offsets of the batches in row-major order; a dimension of size 1 is broadcast.
  result.left_offsets = result.right_offsets = {0};
  const std::size_t rank = std::max(a_batch.size(), b_batch.size());
  std::int64_t a_stride = result.shape.m * result.shape.k, b_stride = result.shape.k * result.shape.n;
  for (std::size_t i = 0; i < rank; ++i) {  // from the innermost batch dimension outwards
    const std::int64_t a_dim = i < a_batch.size() ? a_batch[a_batch.size() - 1 - i] : 1;
    const std::int64_t b_dim = i < b_batch.size() ? b_batch[b_batch.size() - 1 - i] : 1;
    const std::int64_t dim = a_dim == 1 ? b_dim : a_dim;
    const auto repeat = [dim](std::vector<std::int64_t>& offsets, std::int64_t stride) {
      std::vector<std::int64_t> all;
      for (std::int64_t j = 0; j < dim; ++j) {
        for (const std::int64_t offset : offsets) all.push_back(offset + j * stride);
      }
      offsets = std::move(all);
    };
    repeat(result.left_offsets, a_dim == 1 ? 0 : a_stride);
    repeat(result.right_offsets, b_dim == 1 ? 0 : b_stride);
    a_stride *= a_dim;
    b_stride *= b_dim;
  }
  return result;
}

}  // namespace tessera::backends::cpu
