#include "ops/values/generate.h"

#include <algorithm>

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "base/error.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

void constant_of_shape(KernelContext& context) {
  const Shape shape = ops::integers_of(context.input(0));
  for (std::int64_t dim : shape)
    require(dim >= 0, ErrorKind::invalid_model, "dimension {} in the requested shape", dim);
  Tensor& output = context.allocate_output(0, shape);
  if (context.has_attribute("value")) fill(output, context.tensor("value"));
  else fill_zero(output);
}

// element i = start + i * delta
void range(KernelContext& context) {
  const std::int64_t count = ops::range_count(context.input(0), context.input(1), context.input(2));
  Tensor& output = context.allocate_output(0, {count});
  with_wide_type(output.dtype(), [&](auto wide) {
    using Wide = decltype(wide);
    const Wide start = read<Wide>(context.input(0))[0], delta = read<Wide>(context.input(2))[0];
    std::vector<Wide> values = transient_vector<Wide>(count);
    if constexpr (std::is_floating_point_v<Wide>) {
      for (std::int64_t i = 0; i < count; ++i) values[i] = start + static_cast<double>(i) * delta;
    } else {
      // The elements are between start and limit; arithmetic wraps, because i * delta alone may overflow.
      for (std::int64_t i = 0; i < count; ++i) {
        values[i] = static_cast<Wide>(static_cast<std::uint64_t>(start) +
                                      static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(delta));
      }
    }
    write(values, output);
  });
}

void eye_like(KernelContext& context) {
  Tensor& output = context.output(0);
  fill_zero(output);
  const std::int64_t rows = output.shape()[0], columns = output.shape()[1], k = context.integer("k");
  if (k <= -rows || k >= columns) return;
  Tensor one(output.dtype(), {1});
  write(std::vector<double>{1.0}, one);
  for (std::int64_t row = std::max<std::int64_t>(0, -k); row < rows && row + k < columns; ++row)
    copy_element(one, 0, output, row * columns + row + k);
}

// Indices in [-depth, depth) count from either end; others give a line of off values.
void one_hot(KernelContext& context) {
  const Tensor& indices = context.input(0);
  const Tensor& values = context.input(2);
  require(values.elements() == 2, ErrorKind::invalid_model, "input 'values' has {} elements, expected [off, on]",
          values.elements());
  const std::int64_t depth = ops::one_hot_depth(context.input(1));
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), indices.rank() + 1);
  Shape shape = indices.shape();
  shape.insert(shape.begin() + axis, depth);
  Tensor& output = context.allocate_output(0, shape);
  fill(output, values);
  const std::vector<std::int64_t> hot = read<std::int64_t>(indices);
  const AxisView view = axis_view(shape, axis);
  for (std::size_t i = 0; i < hot.size(); ++i) {
    if (hot[i] < -depth || hot[i] >= depth) continue;
    const std::int64_t position = hot[i] < 0 ? hot[i] + depth : hot[i];
    const std::int64_t outer = static_cast<std::int64_t>(i) / view.inner,
                       inner = static_cast<std::int64_t>(i) % view.inner;
    copy_element(values, 1, output, (outer * depth + position) * view.inner + inner);
  }
}

}  // namespace tessera::backends::reference
