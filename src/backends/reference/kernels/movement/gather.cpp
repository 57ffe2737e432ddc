#include "ops/movement/gather.h"

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "backends/reference/index.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

void gather(KernelContext& context) {
  const Tensor& data = context.input(0);
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), data.rank());
  const AxisView view = axis_view(data.shape(), axis);
  const std::vector<std::int64_t> indices = ops::integers_of(context.input(1));
  Tensor& output = context.output(0);
  const std::int64_t count = static_cast<std::int64_t>(indices.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from = normalise_index(indices[i], data.shape()[axis]);
    for (std::int64_t o = 0; o < view.outer; ++o) {
      copy_run(data, (o * view.length + from) * view.inner, output, (o * count + i) * view.inner, view.inner);
    }
  }
}

void gather_elements(KernelContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& indices = context.input(1);
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), data.rank());
  const std::vector<std::int64_t> strides = strides_of(data.shape()), positions = ops::integers_of(indices);
  Tensor& output = context.output(0);
  for_each_index(indices.shape(), [&](const std::vector<std::int64_t>& index, std::int64_t position) {
    std::int64_t from = 0;
    for (std::int64_t i = 0; i < data.rank(); ++i) {
      from += strides[i] * normalise_index(i == axis ? positions[position] : index[i], data.shape()[i]);
    }
    copy_element(data, from, output, position);
  });
}

void gather_nd(KernelContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& indices = context.input(1);
  const std::int64_t batch_dims = context.integer("batch_dims"),
                     depth = indices.rank() > 0 ? indices.shape().back() : 0;
  Tensor& output = context.allocate_output(
      0, ops::concrete_shape(ops::gather_nd_dims(ir::to_dims(data.shape()), ir::to_dims(indices.shape()), batch_dims)));
  if (output.elements() == 0) return;
  const Shape& shape = data.shape();
  const std::vector<std::int64_t> strides = strides_of(shape), parts = ops::integers_of(indices);
  const std::int64_t tuples = indices.elements() / depth;
  const std::int64_t run = output.elements() / tuples;
  const std::int64_t batches = element_count(Shape(shape.begin(), shape.begin() + batch_dims));
  for (std::int64_t tuple = 0; tuple < tuples; ++tuple) {
    std::int64_t from = tuple / (tuples / batches) * (data.elements() / batches);
    for (std::int64_t i = 0; i < depth; ++i)
      from += strides[batch_dims + i] * normalise_index(parts[tuple * depth + i], shape[batch_dims + i]);
    copy_run(data, from, output, tuple * run, run);
  }
}

}  // namespace tessera::backends::reference
