#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/reference/lines.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

template <typename T, typename Step>
void accumulate(KernelContext& context, T start, Step step) {
  const Tensor& input = context.input(0);
  const std::int64_t axis = ops::normalise_axis(ops::single_integer(context.input(1), "axis"), input.rank());
  const bool exclusive = context.integer("exclusive") != 0, reverse = context.integer("reverse") != 0;
  std::vector<T> values = read<T>(input);
  for_each_line(input.shape(), axis, [&](std::int64_t offset, std::int64_t length, std::int64_t stride) {
    T running = start;
    for (std::int64_t i = 0; i < length; ++i) {
      T& value = values[static_cast<std::size_t>(offset + (reverse ? length - 1 - i : i) * stride)];
      const T next = step(running, value);
      value = exclusive ? running : next;
      running = next;
    }
  });
  write(values, context.output(0));
}

// Floats are summed in double; integers wrap.
template <typename Step>
void accumulate_any(KernelContext& context, int start, Step step) {
  if (is_float(context.input(0).dtype())) accumulate(context, static_cast<double>(start), step);
  else accumulate(context, static_cast<std::uint64_t>(start), step);
}

}  // namespace

void cum_sum(KernelContext& context) {
  accumulate_any(context, 0, [](auto sum, auto x) { return sum + x; });
}

void cum_prod(KernelContext& context) {
  accumulate_any(context, 1, [](auto product, auto x) { return product * x; });
}

}  // namespace tessera::backends::reference
