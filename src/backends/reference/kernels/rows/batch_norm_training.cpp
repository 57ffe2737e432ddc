#include "ops/rows/batch_norm_training.h"

#include <cmath>

#include "backends/host/numeric.h"
#include "backends/reference/kernels/rows/kernels.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// A tensor [outer, channels, inner].
struct Channels {
  Channels(const Shape& shape, std::int64_t given) {
    const auto axis = static_cast<std::size_t>(ops::normalise_axis(given, static_cast<std::int64_t>(shape.size())));
    for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
    channels = shape[axis];
    for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  }
  // Calls body(channel, element) for every element.
  template <typename Body>
  void for_each(const Body& body) const {
    for (std::int64_t i = 0; i < outer * channels * inner; ++i)
      body(static_cast<std::size_t>(i / inner % channels), static_cast<std::size_t>(i));
  }
  double count() const { return static_cast<double>(outer * inner); }
  std::int64_t outer = 1, channels = 1, inner = 1;
};

std::vector<double> per_channel(const Channels& view) {
  return std::vector<double>(static_cast<std::size_t>(view.channels), 0.0);
}

std::vector<double> inverse_deviations(const std::vector<double>& variance, double epsilon) {
  std::vector<double> inverse;
  for (const double each : variance) inverse.push_back(1 / std::sqrt(each + epsilon));
  return inverse;
}

}  // namespace

void batch_norm_training(KernelContext& context) {
  const std::vector<double> x = read<double>(context.input(0)), scale = read<double>(context.input(1)),
                            bias = read<double>(context.input(2));
  const std::vector<double> addend = context.has_input(3) ? read<double>(context.input(3)) : std::vector<double>();
  const Channels view(context.input(0).shape(), context.integer("channel_axis"));
  std::vector<double> mean = per_channel(view), variance = mean, y(x.size());
  view.for_each([&](std::size_t c, std::size_t i) { mean[c] += x[i]; });
  for (double& each : mean) each /= view.count();
  view.for_each([&](std::size_t c, std::size_t i) { variance[c] += (x[i] - mean[c]) * (x[i] - mean[c]); });
  for (double& each : variance) each /= view.count();
  const std::vector<double> inverse = inverse_deviations(variance, context.real("epsilon"));
  const bool relu = context.integer("relu") != 0;
  view.for_each([&](std::size_t c, std::size_t i) {
    y[i] = (x[i] - mean[c]) * inverse[c] * scale[c] + bias[c] + (addend.empty() ? 0 : addend[i]);
    if (relu && y[i] < 0) y[i] = 0;
  });
  write(y, context.output(0));
  write(mean, context.output(1));
  write(variance, context.output(2));
}

void batch_norm_training_gradient(KernelContext& context) {
  std::vector<double> g = read<double>(context.input(0));
  const std::vector<double> x = read<double>(context.input(1)), scale = read<double>(context.input(2)),
                            mean = read<double>(context.input(3));
  const std::vector<double> inverse = inverse_deviations(read<double>(context.input(4)), context.real("epsilon"));
  const Channels view(context.input(1).shape(), context.integer("channel_axis"));
  if (context.integer("relu") != 0) {
    const std::vector<double> y = read<double>(context.input(5));
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = y[i] > 0 ? g[i] : 0;
  }
  std::vector<double> sums = per_channel(view), products = sums, dx(x.size());
  view.for_each([&](std::size_t c, std::size_t i) {
    sums[c] += g[i];
    products[c] += g[i] * (x[i] - mean[c]) * inverse[c];
  });
  view.for_each([&](std::size_t c, std::size_t i) {
    const double hat = (x[i] - mean[c]) * inverse[c];
    dx[i] = scale[c] * inverse[c] * (g[i] - sums[c] / view.count() - hat * products[c] / view.count());
  });
  write(dx, context.output(0));
  write(products, context.output(1));
  write(sums, context.output(2));
  if (context.wants_output(3)) write(g, context.output(3));
}

}  // namespace tessera::backends::reference
