// ScatterND: copies the data, or works in place, and applies updates to runs of elements one after the other, so that
// the last of equal indices wins.
#include "backends/cpu/movement/kernels.h"
#include "backends/cpu/movement/scatter.h"
#include "base/error.h"

namespace tessera::backends::cpu {

std::string reject_scatter_nd(const ops::NodeView& view) {
  return ops::scatter_reduction(view) == ops::ScatterReduction::none ? reject_unless_bytes(view)
                                                                     : reject_unless_joined(view);
}

void scatter_nd(KernelContext& context) {
  const Tensor &data = context.input(0), &indices = context.input(1), &updates = context.input(2);
  const Shape& shape = data.shape();
  const std::int64_t depth = indices.rank() > 0 ? indices.shape().back() : 0;
  require(depth >= 1 && depth <= data.rank(), ErrorKind::invalid_model, "an index has {} parts, but data is {}", depth,
          to_string(shape));
  Shape wanted(indices.shape().begin(), indices.shape().end() - 1);
  wanted.insert(wanted.end(), shape.begin() + depth, shape.end());
  require(updates.shape() == wanted, ErrorKind::invalid_model, "updates has shape {}, expected {}",
          to_string(updates.shape()), to_string(wanted));
  copy_data(context);
  std::vector<std::byte> kept, kept_indices;
  const void* from = apart_from_output(context, updates, kept);
  void* to = context.output(0).mutable_raw();
  std::int64_t run = 1;
  for (std::size_t i = shape.size(); i-- > static_cast<std::size_t>(depth);) run *= shape[i];
  const auto* part = static_cast<const std::int64_t*>(apart_from_output(context, indices, kept_indices));
  const std::int64_t tuples = indices.elements() / depth;
  const auto for_each_run = [&](const auto& meet) {
    for (std::int64_t tuple = 0; tuple < tuples; ++tuple) {
      std::int64_t at = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(depth); ++i)
        at = at * shape[i] + checked_index(*part++, shape[i]);
      meet(at * run, tuple * run);
    }
  };
  const ops::ScatterReduction reduction = ops::scatter_reduction(context);
  if (reduction == ops::ScatterReduction::none) {
    const std::int64_t bytes = bits_of(data.dtype()) / 8;
    return for_each_run([&](std::int64_t there, std::int64_t here) {
      std::memcpy(static_cast<std::byte*>(to) + there * bytes, static_cast<const std::byte*>(from) + here * bytes,
                  static_cast<std::size_t>(run * bytes));
    });
  }
  with_join(reduction, data.dtype(), [&]<typename T>(auto join, T) {
    for_each_run([&](std::int64_t there, std::int64_t here) {
      T* values = static_cast<T*>(to) + there;
      const T* update = static_cast<const T*>(from) + here;
      for (std::int64_t i = 0; i < run; ++i) values[i] = join(values[i], update[i]);
    });
  });
}

}  // namespace tessera::backends::cpu
