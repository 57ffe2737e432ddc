#include "ops/movement/expand.h"

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

void expand(KernelContext& context) {
  const Tensor& input = context.input(0);
  Tensor& output = context.allocate_output(
      0, ops::concrete_shape(ops::expand_dims(ir::to_dims(input.shape()), ops::integers_of(context.input(1)))));
  copy_strided(input, 0, broadcast_strides(input.shape(), output.shape()), output);
}

void tile(KernelContext& context) {
  const Tensor& input = context.input(0);
  Tensor& output = context.allocate_output(
      0, ops::concrete_shape(ops::tile_dims(ir::to_dims(input.shape()), ops::integers_of(context.input(1)))));
  const std::vector<std::int64_t> strides = strides_of(input.shape());
  for_each_index(output.shape(), [&](const std::vector<std::int64_t>& index, std::int64_t position) {
    std::int64_t from = 0;
    for (std::size_t i = 0; i < index.size(); ++i) from += index[i] % input.shape()[i] * strides[i];
    copy_element(input, from, output, position);
  });
}

}  // namespace tessera::backends::reference
