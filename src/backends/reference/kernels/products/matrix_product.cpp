#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/backend.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// The operands of one matmul; operands of rank 1 become matrices.
struct Product {
  Shape batch;  // of the result
  std::int64_t rows = 0, inner = 0, columns = 0;
  std::vector<std::int64_t> a_strides, b_strides;  // over the batch, in elements
};

Product product_of(Shape a, Shape b) {
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  Product product;
  product.rows = a[a.size() - 2];
  product.inner = a.back();
  product.columns = b.back();
  const Shape a_batch(a.begin(), a.end() - 2), b_batch(b.begin(), b.end() - 2);
  product.batch.resize(std::max(a_batch.size(), b_batch.size()));
  for (std::size_t i = 0; i < product.batch.size(); ++i) {
    const std::int64_t left = i < a_batch.size() ? a_batch[a_batch.size() - 1 - i] : 1;
    const std::int64_t right = i < b_batch.size() ? b_batch[b_batch.size() - 1 - i] : 1;
    product.batch[product.batch.size() - 1 - i] = left == 1 ? right : left;
  }
  product.a_strides = broadcast_strides(a_batch, product.batch);
  product.b_strides = broadcast_strides(b_batch, product.batch);
  for (std::int64_t& stride : product.a_strides) stride *= product.rows * product.inner;
  for (std::int64_t& stride : product.b_strides) stride *= product.inner * product.columns;
  return product;
}

// Calls body(a_offset, b_offset, result_offset) for every matrix of the batch.
template <typename Body>
void for_each_matrix(const Product& product, Body body) {
  if (element_count(product.batch) == 0) return;
  std::vector<std::int64_t> index(product.batch.size(), 0);
  std::int64_t result = 0;
  do {
    std::int64_t a = 0, b = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
      a += index[i] * product.a_strides[i];
      b += index[i] * product.b_strides[i];
    }
    body(a, b, result);
    result += product.rows * product.columns;
  } while (advance(index, product.batch));
}

template <typename T>
std::vector<T> multiply(const KernelContext& context, const std::vector<T>& a, const std::vector<T>& b,
                        const Product& product) {
  std::vector<T> result = transient_vector<T>(element_count(product.batch) * product.rows * product.columns, T{0});
  for_each_matrix(product, [&](std::int64_t a_at, std::int64_t b_at, std::int64_t at) {
    for (std::int64_t i = 0; i < product.rows; ++i) {
      context.check_stop();
      for (std::int64_t k = 0; k < product.inner; ++k) {
        const T left = a[static_cast<std::size_t>(a_at + i * product.inner + k)];
        const T* right = b.data() + b_at + k * product.columns;
        T* row = result.data() + at + i * product.columns;
        for (std::int64_t j = 0; j < product.columns; ++j) row[j] += left * right[j];
      }
    }
  });
  return result;
}

// Integer arithmetic wraps like the hardware's: unsigned 64-bit integers have the same low bits for signed operands.
template <typename T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

template <typename T>
std::vector<Accumulator<T>> read_accumulators(const Tensor& tensor) {
  if constexpr (std::is_floating_point_v<T>) {
    return read<double>(tensor);
  } else {
    const std::vector<T> values = read<T>(tensor);
    return {values.begin(), values.end()};
  }
}

// Elements minus zero points: one zero point, or one per row (`along_rows`) or column of the last two dimensions,
// batched or not.
std::vector<double> shifted(const Tensor& tensor, const Tensor* zero_point, bool along_rows) {
  std::vector<double> values = read<double>(tensor);
  if (zero_point == nullptr) return values;
  const std::vector<double> zeros = read<double>(*zero_point);
  const Shape& shape = tensor.shape();
  const std::int64_t columns = shape.back();
  const std::int64_t rows = shape.size() > 1 ? shape[shape.size() - 2] : 1;
  const auto count = static_cast<std::int64_t>(zeros.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t flat = static_cast<std::int64_t>(i);
    const std::int64_t row = flat / columns % rows, column = flat % columns, matrix = flat / (columns * rows);
    const std::int64_t lines = along_rows ? rows : columns;
    const std::int64_t position = count == 1 ? 0 : (along_rows ? row : column) + (count > lines ? matrix * lines : 0);
    require(position < count, ErrorKind::failed, "{} zero points for {} {}", count, lines,
            along_rows ? "rows" : "columns");
    values[i] -= zeros[static_cast<std::size_t>(position)];
  }
  return values;
}

// One value, one per line (row or column), or one per line of every matrix of the batch.
struct LineValues {
  LineValues(const Tensor& tensor, std::int64_t lines, std::int64_t matrices, std::string_view name)
      : values(read<double>(tensor)), lines(lines) {
    const std::int64_t count = tensor.elements();
    require(count == 1 || count == lines || count == lines * matrices, ErrorKind::failed,
            "{} has {} values, expected 1, {} or {}", name, count, lines, lines * matrices);
  }
  double at(std::int64_t line, std::int64_t matrix) const {
    const auto count = static_cast<std::int64_t>(values.size());
    return values[static_cast<std::size_t>(count == 1 ? 0 : count == lines ? line : matrix * lines + line)];
  }
  std::vector<double> values;
  std::int64_t lines;
};

}  // namespace

void matmul(KernelContext& context) {
  const Product product = product_of(context.input(0).shape(), context.input(1).shape());
  with_wide_type(context.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto result =
        multiply(context, read_accumulators<T>(context.input(0)), read_accumulators<T>(context.input(1)), product);
    write(result, context.output(0));
  });
}

void gemm(KernelContext& context) {
  const bool transpose_a = context.integer("transA") != 0, transpose_b = context.integer("transB") != 0;
  const double alpha = context.real("alpha"), beta = context.real("beta");
  const Shape& a_shape = context.input(0).shape();
  const Shape& b_shape = context.input(1).shape();
  const std::int64_t rows = a_shape[transpose_a ? 1 : 0], inner = a_shape[transpose_a ? 0 : 1],
                     columns = b_shape[transpose_b ? 0 : 1];
  with_wide_type(context.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> a = read<T>(context.input(0)), b = read<T>(context.input(1));
    const std::vector<T> c = context.has_input(2) ? read<T>(context.input(2)) : std::vector<T>{};
    const Shape result_shape{rows, columns};
    const std::vector<std::int64_t> c_strides = context.has_input(2)
                                                    ? broadcast_strides(context.input(2).shape(), result_shape)
                                                    : std::vector<std::int64_t>{0, 0};
    std::vector<T> result = transient_vector<T>(rows * columns);
    for (std::int64_t i = 0; i < rows; ++i) {
      context.check_stop();
      for (std::int64_t j = 0; j < columns; ++j) {
        Accumulator<T> sum{};
        for (std::int64_t k = 0; k < inner; ++k) {
          sum +=
              static_cast<Accumulator<T>>(a[static_cast<std::size_t>(transpose_a ? k * rows + i : i * inner + k)]) *
              static_cast<Accumulator<T>>(b[static_cast<std::size_t>(transpose_b ? j * inner + k : k * columns + j)]);
        }
        double value = alpha * static_cast<double>(static_cast<T>(sum));
        if (!c.empty())
          value += beta * static_cast<double>(c[static_cast<std::size_t>(i * c_strides[0] + j * c_strides[1])]);
        // Plain integer products stay exact beyond 2^53.
        const bool plain = alpha == 1 && c.empty();
        result[static_cast<std::size_t>(i * columns + j)] = plain ? static_cast<T>(sum) : convert<T>(value);
      }
    }
    write(result, context.output(0));
  });
}

void matmul_integer(KernelContext& context) {
  const Product product = product_of(context.input(0).shape(), context.input(1).shape());
  const std::vector<double> a = shifted(context.input(0), context.has_input(2) ? &context.input(2) : nullptr, true);
  const std::vector<double> b = shifted(context.input(1), context.has_input(3) ? &context.input(3) : nullptr, false);
  // Every partial sum is an integer below 2^53 for any shape that fits in memory, so double is exact.
  write(multiply(context, a, b, product), context.output(0));
}

void qlinear_matmul(KernelContext& context) {
  const Product product = product_of(context.input(0).shape(), context.input(3).shape());
  const std::vector<double> sums = multiply(context, shifted(context.input(0), &context.input(2), true),
                                            shifted(context.input(3), &context.input(5), false), product);
  const std::int64_t matrices = element_count(product.batch);
  const LineValues a_scale(context.input(1), product.rows, matrices, "a_scale"),
      b_scale(context.input(4), product.columns, matrices, "b_scale"),
      y_scale(context.input(6), product.rows, matrices, "y_scale"),
      y_zero_point(context.input(7), product.rows, matrices, "y_zero_point");
  const DType type = context.input(7).dtype();
  std::vector<double> result(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::int64_t flat = static_cast<std::int64_t>(i), matrix = flat / (product.rows * product.columns);
    const std::int64_t row = flat / product.columns % product.rows, column = flat % product.columns;
    const double left = a_scale.at(row, matrix), right = b_scale.at(column, matrix),
                 y_zero = y_zero_point.at(row, matrix);
    const auto factor = static_cast<float>(static_cast<float>(left) * static_cast<float>(right)) /
                        static_cast<float>(y_scale.at(row, matrix));
    const float value = static_cast<float>(sums[i]) * factor;
    if (is_float(type)) result[i] = value + y_zero;
    else
      result[i] = std::clamp(std::nearbyint(static_cast<double>(value)) + y_zero, type == DType::i8 ? -128.0 : 0.0,
                             type == DType::i8 ? 127.0 : 255.0);
  }
  write(result, context.output(0));
}

}  // namespace tessera::backends::reference
