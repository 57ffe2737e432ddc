#include <cmath>
#include <limits>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/reference/window_loops.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// A window as reductions see it: the elements under it that are not padding, as offsets in their channel, and the
// number of taps on the padded input.
struct Window {
  const std::vector<std::int64_t>& offsets;
  std::int64_t padded_taps;
};

// Calls reduce(channel number, output element, Window) for every output.
template <typename Reduce>
void for_each_window(const KernelContext& context, const Shape& x_shape, Reduce reduce) {
  const std::vector<ops::WindowAxis> axes = ops::pooling_geometry(context, x_shape);
  const Shape spatial(x_shape.begin() + 2, x_shape.end());
  const std::vector<std::int64_t> strides = strides_of(spatial);
  Shape windows;
  for (const ops::WindowAxis& axis : axes) windows.push_back(axis.output);
  const std::int64_t outputs = element_count(windows);
  if (outputs == 0) return;
  // Windows are the same for every channel, so each is computed once.
  const std::int64_t channels = x_shape[0] * x_shape[1];
  std::vector<std::int64_t> window(axes.size(), 0), offsets;
  for (std::int64_t o = 0; o < outputs; ++o, advance(window, windows)) {
    context.check_stop();
    offsets.assign(1, 0);
    std::int64_t padded_taps = 1;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const ops::WindowAxis& axis = axes[i];
      const Range inside = taps_inside(axis, window[i], axis.input);
      // Shifted so that the padded input starts at 0.
      ops::WindowAxis padded = axis;
      padded.pad_begin = 0;
      padded_taps *= taps_inside(padded, window[i], axis.pad_begin + axis.input + axis.pad_end).count();
      std::vector<std::int64_t> next;
      next.reserve(offsets.size() * static_cast<std::size_t>(inside.count()));
      for (const std::int64_t offset : offsets) {
        for (std::int64_t k = inside.begin; k < inside.end; ++k) {
          next.push_back(offset + (window[i] * axis.stride - axis.pad_begin + k * axis.dilation) * strides[i]);
        }
      }
      offsets.swap(next);
    }
    for (std::int64_t c = 0; c < channels; ++c) reduce(c, c * outputs + o, Window{offsets, padded_taps});
  }
}

// The offset within a channel, counted with the first spatial axis fastest.
std::int64_t column_major(std::int64_t offset, const Shape& x_shape) {
  std::int64_t result = 0;
  for (std::size_t i = x_shape.size(); i-- > 2;) {
    std::int64_t before = 1;
    for (std::size_t j = 2; j < i; ++j) before *= x_shape[j];
    result += offset % x_shape[i] * before;
    offset /= x_shape[i];
  }
  return result;
}

template <typename T>
void max_pool_as(KernelContext& context) {
  const Tensor& input = context.input(0);
  const std::vector<T> x = read<T>(input);
  const std::int64_t inner =
      ops::TensorType{DType::u8, Shape(input.shape().begin() + 2, input.shape().end())}.elements();
  const bool columns = context.integer("storage_order") != 0;
  std::vector<T> y = transient_vector<T>(context.output(context.wants_output(0) ? 0 : 1).elements());
  std::vector<std::int64_t> indices = transient_vector<std::int64_t>(static_cast<std::int64_t>(y.size()));
  const T least =
      std::is_same_v<T, double> ? static_cast<T>(-INFINITY) : static_cast<T>(input.dtype() == DType::i8 ? -128 : 0);
  for_each_window(context, input.shape(), [&](std::int64_t channel, std::int64_t o, const Window& window) {
    // A window that contains only padding has the least value and no index. NaN is larger than every number.
    T best = least;
    std::int64_t where = -1;
    for (const std::int64_t offset : window.offsets) {
      const T value = x[static_cast<std::size_t>(channel * inner + offset)];
      if (where < 0 || value > best || (value != value && best == best)) {
        best = value;
        where = offset;
      }
    }
    y[static_cast<std::size_t>(o)] = best;
    if (where >= 0) where = channel * inner + (columns ? column_major(where, input.shape()) : where);
    indices[static_cast<std::size_t>(o)] = where;
  });
  if (context.wants_output(0)) write(y, context.output(0));
  if (context.wants_output(1)) write(indices, context.output(1));
}

// y = finish(sum of term(x) over the window, Window)
template <typename Term, typename Finish>
void sum_pool(KernelContext& context, Term term, Finish finish) {
  const Tensor& input = context.input(0);
  const std::vector<double> x = read<double>(input);
  const std::int64_t inner = element_count(Shape(input.shape().begin() + 2, input.shape().end()));
  std::vector<double> y = transient_vector<double>(context.output(0).elements());
  for_each_window(context, input.shape(), [&](std::int64_t channel, std::int64_t o, const Window& window) {
    double sum = 0;
    for (const std::int64_t offset : window.offsets) sum += term(x[static_cast<std::size_t>(channel * inner + offset)]);
    y[static_cast<std::size_t>(o)] = finish(sum, window);
  });
  write(y, context.output(0));
}

// y = finish(fold over all elements of a channel), starting from `start`.
template <typename Fold, typename Finish>
void pool_globally(KernelContext& context, double start, Fold fold, Finish finish) {
  const std::vector<double> x = read<double>(context.input(0));
  std::vector<double> y(static_cast<std::size_t>(context.output(0).elements()), start);
  const std::size_t inner = y.empty() ? 0 : x.size() / y.size();
  for (std::size_t i = 0; i < x.size(); ++i) y[i / inner] = fold(y[i / inner], x[i]);
  for (double& value : y) value = finish(value, static_cast<double>(inner));
  write(y, context.output(0));
}

}  // namespace

void average_pool(KernelContext& context) {
  const bool include_padding = context.integer("count_include_pad") != 0;
  sum_pool(
      context, [](double x) { return x; },
      [&](double sum, const Window& window) {
        const std::int64_t count =
            include_padding ? window.padded_taps : static_cast<std::int64_t>(window.offsets.size());
        return count == 0 ? 0 : sum / static_cast<double>(count);
      });
}

void average_pool_gradient(KernelContext& context) {
  const bool include_padding = context.integer("count_include_pad") != 0, divide = context.integer("divide") != 0;
  const Shape shape = read<std::int64_t>(context.input(1));
  Tensor& output = context.allocate_output(0, shape);
  const std::int64_t inner = element_count(Shape(shape.begin() + 2, shape.end()));
  const std::vector<double> given = read<double>(context.input(0));
  std::vector<double> result = transient_vector<double>(output.elements(), 0.0);
  for_each_window(context, shape, [&](std::int64_t channel, std::int64_t o, const Window& window) {
    const std::int64_t count = include_padding ? window.padded_taps : static_cast<std::int64_t>(window.offsets.size());
    const double share = given[static_cast<std::size_t>(o)] / static_cast<double>(divide ? count : 1);
    for (const std::int64_t offset : window.offsets)
      result[static_cast<std::size_t>(channel * inner + offset)] += share;
  });
  write(result, output);
}

void max_pool(KernelContext& context) {
  if (is_float(context.input(0).dtype())) max_pool_as<double>(context);
  else max_pool_as<std::int64_t>(context);
}

void lp_pool(KernelContext& context) {
  const double p = static_cast<double>(context.integer("p"));
  sum_pool(
      context, [&](double x) { return std::pow(std::abs(x), p); },
      [&](double sum, const Window&) { return std::pow(sum, 1 / p); });
}

void global_average_pool(KernelContext& context) {
  pool_globally(
      context, 0, [](double sum, double x) { return sum + x; }, [](double sum, double count) { return sum / count; });
}

void global_max_pool(KernelContext& context) {
  pool_globally(
      context, -INFINITY, [](double best, double x) { return x > best || std::isnan(x) ? x : best; },
      [](double best, double) { return best; });
}

void global_lp_pool(KernelContext& context) {
  const double p = static_cast<double>(context.integer("p"));
  pool_globally(
      context, 0, [&](double sum, double x) { return sum + std::pow(std::abs(x), p); },
      [&](double sum, double) { return std::pow(sum, 1 / p); });
}

void max_unpool(KernelContext& context) {
  const Tensor &x = context.input(0), &indices = context.input(1);
  const ops::WindowAttributes attributes =
      ops::read_window_attributes(context, std::vector<std::int64_t>(x.shape().size() - 2, -1));
  // Indices count elements of the shape without output_shape; a larger output contains that shape in its first corner.
  Shape natural{x.shape()[0], x.shape()[1]};
  for (std::size_t i = 0; i < attributes.rank(); ++i) {
    natural.push_back(ops::unpooled_size(attributes, i, x.shape()[i + 2]));
  }
  const Shape shape = context.has_input(2) ? read<std::int64_t>(context.input(2)) : natural;
  require(shape.size() == natural.size(), ErrorKind::failed, "output_shape has {} entries, expected {}", shape.size(),
          natural.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    require(i < 2 ? shape[i] == natural[i] : shape[i] >= natural[i], ErrorKind::failed,
            "output_shape {} does not hold {}", to_string(shape), to_string(natural));
  }
  Tensor& output = context.output_type(0).shape() ? context.output(0) : context.allocate_output(0, shape);
  const std::int64_t total = element_count(natural);
  const std::vector<std::int64_t> strides = strides_of(shape);
  std::vector<double> y = transient_vector<double>(element_count(shape), 0.0);
  const std::vector<double> values = read<double>(x);
  const std::vector<std::int64_t> targets = read<std::int64_t>(indices);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t rest = targets[i], offset = 0;
    require(rest >= 0 && rest < total, ErrorKind::failed, "index {} is outside [0, {})", rest, total);
    for (std::size_t axis = natural.size(); axis-- > 0; rest /= natural[axis]) {
      offset += rest % natural[axis] * strides[axis];
    }
    y[static_cast<std::size_t>(offset)] = values[i];
  }
  write(y, output);
}

}  // namespace tessera::backends::reference
