#include "backends/host/ctc.h"
#include "backends/host/numeric.h"
#include "backends/reference/kernels/training/kernels.h"

namespace tessera::backends::reference {

using namespace host;

void ctc_loss(KernelContext& context) {
  const Shape& shape = context.input(0).shape();
  const std::int64_t batch = shape[0], sample = shape[1] * shape[2], length = context.input(1).shape()[1];
  const std::vector<double> scores = read<double>(context.input(0));
  const std::vector<std::int64_t> labels = read<std::int64_t>(context.input(1));
  std::vector<double> losses(static_cast<std::size_t>(batch)), derivatives(scores.size());
  for (std::int64_t n = 0; n < batch; ++n) {
    std::vector<std::int64_t> own(labels.begin() + n * length, labels.begin() + (n + 1) * length);
    std::erase(own, context.integer("ignore_index"));
    losses[static_cast<std::size_t>(n)] = host::ctc_loss(scores.data() + n * sample, shape[1], shape[2], own,
                                                         context.integer("blank"), derivatives.data() + n * sample);
  }
  write(losses, context.output(0));
  if (context.wants_output(1)) write(derivatives, context.output(1));
}

}  // namespace tessera::backends::reference
