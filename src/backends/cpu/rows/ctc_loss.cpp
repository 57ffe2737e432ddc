// CTC loss, computed in float64, with the samples of a batch in parallel. See ops/training/ctc_loss.h.
#include <vector>

#include "backends/cpu/rows/kernels.h"
#include "backends/host/ctc.h"
#include "backends/host/numeric.h"

namespace tessera::backends::cpu {

void ctc_loss(KernelContext& context) {
  const Shape& shape = context.input(0).shape();
  const std::int64_t sample = shape[1] * shape[2], length = context.input(1).shape()[1];
  const std::int64_t padding = context.integer("ignore_index"), blank = context.integer("blank");
  const std::vector<std::int64_t> labels = host::read<std::int64_t>(context.input(1));
  const float* scores = context.input(0).data<float>();
  float* losses = context.output(0).mutable_data<float>();
  float* derivatives = context.wants_output(1) ? context.output(1).mutable_data<float>() : nullptr;
  context.parallel_for(shape[0], 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> wide(static_cast<std::size_t>(sample)), slopes(derivatives != nullptr ? wide.size() : 0);
    for (std::int64_t n = begin; n < end; ++n) {
      std::vector<std::int64_t> own(labels.begin() + n * length, labels.begin() + (n + 1) * length);
      std::erase(own, padding);
      std::copy_n(scores + n * sample, sample, wide.begin());
      losses[n] = static_cast<float>(host::ctc_loss(wide.data(), shape[1], shape[2], own, blank,
                                                    derivatives != nullptr ? slopes.data() : nullptr));
      for (std::size_t i = 0; i < slopes.size(); ++i)
        derivatives[n * sample + static_cast<std::int64_t>(i)] = static_cast<float>(slopes[i]);
    }
  });
}

}  // namespace tessera::backends::cpu
