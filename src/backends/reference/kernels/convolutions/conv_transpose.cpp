#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/reference/window_loops.h"

namespace tessera::backends::reference {

using namespace host;

void conv_transpose(KernelContext& context) {
  const Tensor &input = context.input(0), &weights = context.input(1);
  Tensor& output = context.output(0);
  const std::vector<ops::WindowAxis> axes = ops::transposed_geometry(context, input.shape(), weights.shape());
  const WindowRows rows(axes, true);
  const std::vector<double> x = read<double>(input), w = read<double>(weights);
  const std::vector<double> bias = context.has_input(2) ? read<double>(context.input(2)) : std::vector<double>{};
  std::vector<double> y = start_from_bias(bias, output.shape());
  const std::int64_t channels = input.shape()[1], outputs = output.shape()[1], step = rows.step();
  const std::int64_t groups = context.integer("group"), inputs_per_group = channels / groups;
  const std::int64_t outputs_per_group = weights.shape()[1];
  context.parallel_for(input.shape()[0] * outputs, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / outputs, m = i % outputs, first = m / outputs_per_group * inputs_per_group;
      double* target = y.data() + i * rows.positions();
      for (std::int64_t c = first; c < first + inputs_per_group; ++c) {
        const double* source = x.data() + (n * channels + c) * rows.windows();
        const double* taps = w.data() + (c * outputs_per_group + m % outputs_per_group) * rows.taps();
        rows.for_each(context, [&](std::int64_t tap, std::int64_t window, std::int64_t position, std::int64_t length) {
          for (std::int64_t k = 0; k < length; ++k) target[position + k * step] += taps[tap] * source[window + k];
        });
      }
    }
  });
  write(y, output);
}

}  // namespace tessera::backends::reference
