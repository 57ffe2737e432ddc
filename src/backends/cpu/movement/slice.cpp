#include "ops/movement/slice.h"

#include "backends/cpu/movement/kernels.h"
#include "backends/cpu/movement/movement.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::cpu {
namespace {

Movement resolve(const MovementArguments& arguments) {
  const auto list = [&](std::size_t i) {
    return arguments.inputs[i] != nullptr ? std::optional(ops::integers_of(*arguments.inputs[i])) : std::nullopt;
  };
  const Shape& input = *arguments.shape;
  const ops::SliceRequest request =
      ops::slice_request(*list(1), *list(2), list(3), list(4), static_cast<std::int64_t>(input.size()));
  Movement movement{input, {}, row_major_strides(input), 0};
  for (std::size_t i = 0; i < request.axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(request.axes[i]);
    const ops::SliceRange range = ops::slice_range(input[axis], request.starts[i], request.ends[i], request.steps[i]);
    movement.shape[axis] = range.count;
    movement.offset += range.start * movement.strides[axis];
    // With a single element the step is not used, and its product with the stride could overflow.
    if (range.count > 1) movement.strides[axis] *= range.step;
  }
  movement.dims = movement.shape;
  return movement;
}

}  // namespace

std::unique_ptr<Kernel> make_slice(const ops::NodeView& view, WeightStore&) {
  return make_movement(view, resolve);
}

}  // namespace tessera::backends::cpu
