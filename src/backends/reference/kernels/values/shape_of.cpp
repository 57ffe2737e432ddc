#include "ops/values/shape_of.h"

#include <algorithm>

#include "backends/backend.h"

namespace tessera::backends::reference {

void shape_of(KernelContext& context) {
  const Shape& shape = context.input(0).shape();
  const ops::DimRange range = ops::shape_range(context, context.input(0).rank());
  Tensor& output = context.allocate_output(0, {range.last - range.first});
  std::copy(shape.begin() + range.first, shape.begin() + range.last, output.mutable_data<std::int64_t>());
}

void size_of(KernelContext& context) {
  context.output(0).mutable_data<std::int64_t>()[0] = context.input(0).elements();
}

}  // namespace tessera::backends::reference
