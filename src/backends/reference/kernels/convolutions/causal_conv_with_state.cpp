#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

void causal_conv_with_state(KernelContext& context) {
  const std::vector<double> x = read<double>(context.input(0)), w = read<double>(context.input(1));
  const Shape& shape = context.input(0).shape();
  const std::int64_t channels = shape[1], length = shape[2], kernel = context.input(1).shape()[2], carried = kernel - 1;
  const std::vector<double> bias = context.has_input(2) ? read<double>(context.input(2)) : std::vector<double>{};
  const std::vector<double> past = context.has_input(3) ? read<double>(context.input(3)) : std::vector<double>{};
  const bool silu = context.text("activation") != "none";
  std::vector<double> y(x.size()), state(static_cast<std::size_t>(shape[0] * channels * carried));
  std::vector<double> padded(static_cast<std::size_t>(length + carried));
  for (std::int64_t row = 0; row < shape[0] * channels; ++row) {
    const std::size_t c = static_cast<std::size_t>(row % channels);
    for (std::int64_t i = 0; i < carried; ++i) {
      padded[static_cast<std::size_t>(i)] = past.empty() ? 0 : past[static_cast<std::size_t>(row * carried + i)];
    }
    for (std::int64_t i = 0; i < length; ++i) {
      padded[static_cast<std::size_t>(carried + i)] = x[static_cast<std::size_t>(row * length + i)];
    }
    for (std::int64_t i = 0; i < length; ++i) {
      context.check_stop();
      double sum = bias.empty() ? 0 : bias[c];
      for (std::int64_t k = 0; k < kernel; ++k) {
        sum += padded[static_cast<std::size_t>(i + k)] *
               w[c * static_cast<std::size_t>(kernel) + static_cast<std::size_t>(k)];
      }
      y[static_cast<std::size_t>(row * length + i)] = silu ? sum / (1 + std::exp(-sum)) : sum;
    }
    for (std::int64_t i = 0; i < carried; ++i) {
      state[static_cast<std::size_t>(row * carried + i)] = padded[static_cast<std::size_t>(length + i)];
    }
  }
  write(y, context.output(0));
  if (context.wants_output(1)) write(state, context.output(1));
}

}  // namespace tessera::backends::reference
