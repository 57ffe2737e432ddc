#include "ops/movement/reshape.h"

#include <algorithm>
#include <cstring>

#include "backends/backend.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {
namespace {

void copy_to(KernelContext& context, Shape shape) {
  const Tensor& input = context.input(0);
  Tensor& output = context.allocate_output(0, std::move(shape));
  if (input.shares_storage_with(output)) return;
  if (input.dtype() == DType::string)
    std::copy_n(input.data<std::string>(), input.elements(), output.mutable_data<std::string>());
  else if (input.bytes() > 0) std::memcpy(output.mutable_raw(), input.raw(), static_cast<std::size_t>(input.bytes()));
}

}  // namespace

void copy_bytes(KernelContext& context) {
  copy_to(context, context.output(0).shape());
}

void reshape(KernelContext& context) {
  copy_to(context, ops::resolve_reshape(context.input(0).shape(), ops::integers_of(context.input(1)),
                                        context.integer("allowzero") != 0));
}

void squeeze(KernelContext& context) {
  const Shape& shape = context.input(0).shape();
  const std::vector<std::int64_t> axes =
      context.has_input(1) ? ops::integers_of(context.input(1)) : ops::unit_axes(shape);
  copy_to(context, ops::concrete_shape(ops::squeeze_dims(ir::to_dims(shape), axes)));
}

void unsqueeze(KernelContext& context) {
  copy_to(context, ops::concrete_shape(
                       ops::unsqueeze_dims(ir::to_dims(context.input(0).shape()), ops::integers_of(context.input(1)))));
}

}  // namespace tessera::backends::reference
