#include "ops/movement/slice.h"

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

void slice(KernelContext& context) {
  const Tensor& input = context.input(0);
  const auto list = [&](std::size_t i) {
    return context.has_input(i) ? std::optional(ops::integers_of(context.input(i))) : std::nullopt;
  };
  const ops::SliceRequest request = ops::slice_request(*list(1), *list(2), list(3), list(4), input.rank());
  Shape shape = input.shape();
  std::vector<std::int64_t> strides = strides_of(shape);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < request.axes.size(); ++i) {
    const std::int64_t axis = request.axes[i];
    const ops::SliceRange range = ops::slice_range(shape[axis], request.starts[i], request.ends[i], request.steps[i]);
    shape[axis] = range.count;
    if (input.elements() == 0) continue;
    offset += range.start * strides[axis];
    strides[axis] *= range.step;
  }
  copy_strided(input, offset, strides, context.allocate_output(0, shape));
}

}  // namespace tessera::backends::reference
