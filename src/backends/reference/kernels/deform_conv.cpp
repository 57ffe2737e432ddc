#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/reference/window_loops.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// Multilinear interpolation of a dense array at a real position; zero outside the array.
double sample(const double* values, const Shape& shape, const std::vector<double>& position) {
  const std::size_t rank = shape.size();
  std::vector<std::int64_t> low(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    if (!(position[i] > -1 && position[i] < static_cast<double>(shape[i]))) return 0;
    low[i] = static_cast<std::int64_t>(std::floor(position[i]));
  }
  double sum = 0;
  for (std::size_t corner = 0; corner < (std::size_t{1} << rank); ++corner) {
    double weight = 1;
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t at = low[i] + static_cast<std::int64_t>(corner >> i & 1);
      const bool inside = at >= 0 && at < shape[i];
      weight *= inside ? 1 - std::abs(position[i] - static_cast<double>(at)) : 0;
      offset = offset * shape[i] + (inside ? at : 0);
    }
    if (weight != 0) sum += weight * values[offset];
  }
  return sum;
}

}  // namespace

void deform_conv(KernelContext& context) {
  const Shape &x_shape = context.input(0).shape(), &w_shape = context.input(1).shape();
  const Shape& y_shape = context.output(0).shape();
  const std::vector<ops::WindowAxis> axes = ops::convolution_geometry(context, x_shape, w_shape);
  require(axes.size() <= 8, ErrorKind::unsupported, "{} spatial axes, at most 8 are supported", axes.size());
  const std::vector<double> x = read<double>(context.input(0)), w = read<double>(context.input(1));
  const std::vector<double> offsets = read<double>(context.input(2));
  const std::vector<double> bias = context.has_input(3) ? read<double>(context.input(3)) : std::vector<double>{};
  const std::vector<double> mask = context.has_input(4) ? read<double>(context.input(4)) : std::vector<double>{};
  const Shape spatial(x_shape.begin() + 2, x_shape.end()), kernel(w_shape.begin() + 2, w_shape.end());
  const Shape windows(y_shape.begin() + 2, y_shape.end());
  const std::int64_t positions = element_count(spatial), taps = element_count(kernel), outputs = element_count(windows);
  const std::int64_t rank = static_cast<std::int64_t>(axes.size()), groups = context.integer("group");
  const std::int64_t per_group = w_shape[1], channels = x_shape[1], features = w_shape[0];
  const std::int64_t offset_groups = context.integer("offset_group");
  std::vector<double> y = start_from_bias(bias, y_shape);
  // The samples under one channel's windows serve all features of its group.
  const auto add_channel = [&](std::int64_t n, std::int64_t c) {
    const std::int64_t offset_group = n * offset_groups + c / (channels / offset_groups);
    const std::int64_t feature_count = features / groups, first = c / per_group * feature_count;
    std::vector<std::int64_t> tap(axes.size(), 0), window(axes.size(), 0);
    std::vector<double> position(axes.size());
    for (std::int64_t k = 0; k < taps; ++k, advance(tap, kernel)) {
      context.check_stop();
      for (std::int64_t o = 0; o < outputs; ++o, advance(window, windows)) {
        for (std::size_t i = 0; i < axes.size(); ++i) {
          const std::int64_t which = (offset_group * taps + k) * rank + static_cast<std::int64_t>(i);
          const std::int64_t base = window[i] * axes[i].stride - axes[i].pad_begin + tap[i] * axes[i].dilation;
          position[i] = static_cast<double>(base) + offsets[static_cast<std::size_t>(which * outputs + o)];
        }
        double value = sample(x.data() + (n * channels + c) * positions, spatial, position);
        if (!mask.empty()) value *= mask[static_cast<std::size_t>((offset_group * taps + k) * outputs + o)];
        for (std::int64_t m = first; m < first + feature_count; ++m) {
          y[static_cast<std::size_t>((n * features + m) * outputs + o)] +=
              value * w[static_cast<std::size_t>((m * per_group + c % per_group) * taps + k)];
        }
      }
    }
  };
  for (std::int64_t n = 0; n < x_shape[0]; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) add_channel(n, c);
  }
  write(y, context.output(0));
}

}  // namespace tessera::backends::reference
