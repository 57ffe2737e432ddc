#include "ops/movement/concat.h"

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "base/error.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

void concat(KernelContext& context) {
  std::vector<ir::Dims> dims;
  for (std::size_t i = 0; i < context.input_count(); ++i) dims.push_back(ir::to_dims(context.input(i).shape()));
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), context.input(0).rank());
  Tensor& output = context.allocate_output(0, ops::concrete_shape(ops::concat_dims(dims, axis)));
  const AxisView whole = axis_view(output.shape(), axis);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const std::int64_t length = context.input(i).shape()[axis];
    const std::int64_t run = length * whole.inner;
    for (std::int64_t o = 0; o < whole.outer; ++o)
      copy_run(context.input(i), o * run, output, (o * whole.length + start) * whole.inner, run);
    start += length;
  }
}

void split(KernelContext& context) {
  const Tensor& input = context.input(0);
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), input.rank());
  const AxisView whole = axis_view(input.shape(), axis);
  const std::vector<std::int64_t> sizes =
      context.has_input(1) ? ops::integers_of(context.input(1))
                           : ops::split_evenly(input.shape()[axis], static_cast<std::int64_t>(context.output_count()));
  ops::check_split(sizes, input.shape()[axis]);
  require(sizes.size() == context.output_count(), ErrorKind::invalid_model, "{} sizes for {} outputs", sizes.size(),
          context.output_count());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (context.wants_output(i)) {
      Shape shape = input.shape();
      shape[axis] = sizes[i];
      Tensor& output = context.allocate_output(i, shape);
      const std::int64_t run = sizes[i] * whole.inner;
      for (std::int64_t o = 0; o < whole.outer; ++o)
        copy_run(input, (o * whole.length + start) * whole.inner, output, o * run, run);
    }
    start += sizes[i];
  }
}

}  // namespace tessera::backends::reference
