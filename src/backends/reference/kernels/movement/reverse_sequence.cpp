#include "backends/backend.h"
#include "backends/host/movement.h"
#include "base/error.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

void reverse_sequence(KernelContext& context) {
  const Tensor& input = context.input(0);
  Tensor& output = context.output(0);
  const bool batch_first = context.integer("batch_axis") == 0;
  const std::int64_t batches = input.shape()[batch_first ? 0 : 1], steps = input.shape()[batch_first ? 1 : 0];
  const std::vector<std::int64_t> lengths = ops::integers_of(context.input(1));
  require(static_cast<std::int64_t>(lengths.size()) == batches, ErrorKind::invalid_model,
          "{} sequence lengths for a batch of {}", lengths.size(), batches);
  const std::int64_t run = axis_view(input.shape(), 1).inner;
  const auto position = [&](std::int64_t batch, std::int64_t step) {
    return (batch_first ? batch * steps + step : step * batches + batch) * run;
  };
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    const std::int64_t length = lengths[batch];
    require(length >= 0 && length <= steps, ErrorKind::failed, "sequence length {} is outside [0, {}]", length, steps);
    for (std::int64_t step = 0; step < steps; ++step) {
      copy_run(input, position(batch, step < length ? length - 1 - step : step), output, position(batch, step), run);
    }
  }
}

}  // namespace tessera::backends::reference
