#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/reference/window_loops.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// The pixels around a real position, with their weights and the weights' derivatives along each axis; none outside.
struct Corner {
  std::int64_t offset = 0;
  double weight = 1;
  std::vector<double> slopes;
};

std::vector<Corner> corners_of(const Shape& shape, const std::vector<double>& position) {
  const std::size_t rank = shape.size();
  std::vector<Corner> corners;
  for (std::size_t i = 0; i < rank; ++i) {
    if (!(position[i] > -1 && position[i] < static_cast<double>(shape[i]))) return corners;
  }
  for (std::size_t which = 0; which < (std::size_t{1} << rank); ++which) {
    Corner corner{0, 1, std::vector<double>(rank, 1.0)};
    bool inside = true;
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t low = static_cast<std::int64_t>(std::floor(position[i]));
      const bool high = (which >> i & 1) != 0;
      const std::int64_t at = low + (high ? 1 : 0);
      inside = inside && at >= 0 && at < shape[i];
      const double part = position[i] - static_cast<double>(low), weight = high ? part : 1 - part;
      corner.weight *= weight;
      for (std::size_t k = 0; k < rank; ++k) corner.slopes[k] *= k != i ? weight : high ? 1 : -1;
      corner.offset = corner.offset * shape[i] + at;
    }
    if (inside) corners.push_back(std::move(corner));
  }
  return corners;
}

// The samples of one offset group of one image.
struct Samples {
  Shape spatial, kernel, windows;
  std::vector<ops::WindowAxis> axes;
  std::int64_t groups = 1, taps = 1, outputs = 1;

  std::size_t offset_at(std::int64_t group, std::int64_t tap, std::size_t axis, std::int64_t o) const {
    return static_cast<std::size_t>(
        ((group * taps + tap) * static_cast<std::int64_t>(axes.size()) + static_cast<std::int64_t>(axis)) * outputs +
        o);
  }
  std::size_t mask_at(std::int64_t group, std::int64_t tap, std::int64_t o) const {
    return static_cast<std::size_t>((group * taps + tap) * outputs + o);
  }

  // Calls body(tap, window, corners); `group`: image * groups + offset group.
  template <typename Body>
  void for_each(const KernelContext& context, const std::vector<double>& offsets, std::int64_t group, Body body) const {
    std::vector<std::int64_t> tap(axes.size(), 0), window(axes.size(), 0);
    std::vector<double> position(axes.size());
    for (std::int64_t k = 0; k < taps; ++k, advance(tap, kernel)) {
      context.check_stop();
      for (std::int64_t o = 0; o < outputs; ++o, advance(window, windows)) {
        for (std::size_t i = 0; i < axes.size(); ++i) {
          const std::int64_t base = window[i] * axes[i].stride - axes[i].pad_begin + tap[i] * axes[i].dilation;
          position[i] = static_cast<double>(base) + offsets[offset_at(group, k, i, o)];
        }
        body(k, o, corners_of(spatial, position));
      }
    }
  }
};

Samples read_samples(const KernelContext& context, const Shape& x, std::vector<ops::WindowAxis> axes) {
  require(axes.size() <= 8, ErrorKind::unsupported, "{} spatial axes, at most 8 are supported", axes.size());
  Samples samples{Shape(x.begin() + 2, x.end()), {}, {}, std::move(axes), context.integer("offset_group"), 1, 1};
  for (const ops::WindowAxis& axis : samples.axes) {
    samples.kernel.push_back(axis.kernel);
    samples.windows.push_back(axis.output);
  }
  samples.taps = element_count(samples.kernel);
  samples.outputs = element_count(samples.windows);
  return samples;
}

double sum_of(const std::vector<Corner>& corners, const double* plane) {
  double sum = 0;
  for (const Corner& corner : corners) sum += corner.weight * plane[corner.offset];
  return sum;
}

}  // namespace

void deform_conv(KernelContext& context) {
  const Shape &x_shape = context.input(0).shape(), &w_shape = context.input(1).shape();
  const Shape& y_shape = context.output(0).shape();
  const Samples samples = read_samples(context, x_shape, ops::convolution_geometry(context, x_shape, w_shape));
  const std::vector<double> x = read<double>(context.input(0)), w = read<double>(context.input(1));
  const std::vector<double> offsets = read<double>(context.input(2));
  const std::vector<double> bias = context.has_input(3) ? read<double>(context.input(3)) : std::vector<double>{};
  const std::vector<double> mask = context.has_input(4) ? read<double>(context.input(4)) : std::vector<double>{};
  const std::int64_t positions = element_count(samples.spatial), groups = context.integer("group");
  const std::int64_t per_group = w_shape[1], channels = x_shape[1], features = w_shape[0];
  std::vector<double> y = start_from_bias(bias, y_shape);
  // The samples under one channel's windows are used for all output channels of its group.
  const auto add_channel = [&](std::int64_t n, std::int64_t c) {
    const std::int64_t offset_group = n * samples.groups + c / (channels / samples.groups);
    const std::int64_t feature_count = features / groups, first = c / per_group * feature_count;
    samples.for_each(context, offsets, offset_group,
                     [&](std::int64_t k, std::int64_t o, const std::vector<Corner>& corners) {
                       double value = sum_of(corners, x.data() + (n * channels + c) * positions);
                       if (!mask.empty()) value *= mask[samples.mask_at(offset_group, k, o)];
                       for (std::int64_t m = first; m < first + feature_count; ++m) {
                         y[static_cast<std::size_t>((n * features + m) * samples.outputs + o)] +=
                             value * w[static_cast<std::size_t>((m * per_group + c % per_group) * samples.taps + k)];
                       }
                     });
  };
  for (std::int64_t n = 0; n < x_shape[0]; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) add_channel(n, c);
  }
  write(y, context.output(0));
}

void deformed_windows(KernelContext& context) {
  const Shape& shape = context.input(0).shape();
  const Samples samples = read_samples(context, shape, ops::pooling_geometry(context, shape));
  const std::vector<double> x = read<double>(context.input(0)), offsets = read<double>(context.input(1));
  const std::vector<double> mask = context.has_input(2) ? read<double>(context.input(2)) : std::vector<double>{};
  const std::int64_t positions = element_count(samples.spatial), channels = shape[1];
  std::vector<double> y = transient_vector<double>(context.output(0).elements());
  for (std::int64_t plane = 0; plane < shape[0] * channels; ++plane) {
    const std::int64_t group = plane / channels * samples.groups + plane % channels / (channels / samples.groups);
    samples.for_each(context, offsets, group, [&](std::int64_t k, std::int64_t o, const std::vector<Corner>& corners) {
      const double factor = mask.empty() ? 1 : mask[samples.mask_at(group, k, o)];
      y[static_cast<std::size_t>((plane * samples.taps + k) * samples.outputs + o)] =
          factor * sum_of(corners, x.data() + plane * positions);
    });
  }
  write(y, context.output(0));
}

void deformed_windows_gradient(KernelContext& context) {
  const Shape& shape = context.input(0).shape();
  const Samples samples = read_samples(context, shape, ops::pooling_geometry(context, shape));
  const std::vector<double> x = read<double>(context.input(0)), offsets = read<double>(context.input(1));
  const std::vector<double> dy = read<double>(context.input(2));
  const std::vector<double> mask = context.has_input(3) ? read<double>(context.input(3)) : std::vector<double>{};
  const std::int64_t positions = element_count(samples.spatial), channels = shape[1];
  std::vector<double> dx(x.size()), doffsets(offsets.size()), dmask(mask.size());
  for (std::int64_t plane = 0; plane < shape[0] * channels; ++plane) {
    const std::int64_t group = plane / channels * samples.groups + plane % channels / (channels / samples.groups);
    const double* from = x.data() + plane * positions;
    double* to = dx.data() + plane * positions;
    samples.for_each(context, offsets, group, [&](std::int64_t k, std::int64_t o, const std::vector<Corner>& corners) {
      const double given = dy[static_cast<std::size_t>((plane * samples.taps + k) * samples.outputs + o)];
      const double factor = mask.empty() ? 1 : mask[samples.mask_at(group, k, o)];
      if (!mask.empty()) dmask[samples.mask_at(group, k, o)] += given * sum_of(corners, from);
      for (const Corner& corner : corners) {
        to[corner.offset] += given * factor * corner.weight;
        for (std::size_t i = 0; i < corner.slopes.size(); ++i)
          doffsets[samples.offset_at(group, k, i, o)] += given * factor * corner.slopes[i] * from[corner.offset];
      }
    });
  }
  write(dx, context.output(0));
  if (context.wants_output(1)) write(doffsets, context.output(1));
  if (context.wants_output(2)) write(dmask, context.output(2));
}

}  // namespace tessera::backends::reference
