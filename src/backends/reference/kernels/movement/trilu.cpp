#include <algorithm>

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

// Upper keeps elements with column - row >= k, lower those with column - row <= k.
void trilu(KernelContext& context) {
  const Tensor& input = context.input(0);
  Tensor& output = context.output(0);
  const std::int64_t columns = input.shape().back(), rows = input.shape()[input.shape().size() - 2];
  const bool upper = context.integer("upper") != 0;
  std::int64_t k = context.has_input(1) ? ops::single_integer(context.input(1), "k") : 0;
  k = std::clamp(k, -rows - 1, columns + 1);
  fill_zero(output);
  if (input.elements() == 0) return;
  for (std::int64_t line = 0; line < input.elements() / columns; ++line) {
    const std::int64_t diagonal = line % rows + k;
    const std::int64_t first = upper ? std::clamp<std::int64_t>(diagonal, 0, columns) : 0;
    const std::int64_t last = upper ? columns : std::clamp<std::int64_t>(diagonal + 1, 0, columns);
    copy_run(input, line * columns + first, output, line * columns + first, last - first);
  }
}

}  // namespace tessera::backends::reference
