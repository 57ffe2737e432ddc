#include "ops/sampling/grid_sample.h"

#include <algorithm>
#include <complex>

#include "backends/backend.h"
#include "backends/host/grid_taps.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "base/error.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// The weighted sum over the neighbours in all axes, innermost first as in ONNX's nested interpolation.
template <typename T>
T interpolate(const T* image, const GridSampling& sampling, const std::vector<GridTap>& taps, std::size_t axis,
              std::int64_t offset) {
  T sum = 0;
  for (int i = 0; i < taps[axis].count; ++i) {
    const std::int64_t pixel = grid_pixel(sampling, axis, taps[axis].first + i);
    if (pixel < 0) continue;
    const std::int64_t at = offset * sampling.extents[axis].size + pixel;
    const T value = axis + 1 == taps.size() ? image[at] : interpolate(image, sampling, taps, axis + 1, at);
    sum += taps[axis].weights[i] * value;
  }
  return sum;
}

// The pixel, within its channel, that nearest mode selects, or -1 for a zero.
std::int64_t nearest_pixel(const GridSampling& sampling, const std::vector<GridTap>& taps) {
  std::int64_t at = 0;
  for (std::size_t axis = 0; axis < taps.size(); ++axis) {
    const std::int64_t pixel = grid_pixel(sampling, axis, taps[axis].first);
    if (pixel < 0) return -1;
    at = at * sampling.extents[axis].size + pixel;
  }
  return at;
}

// Calls body(index of the channel's first input element, output element, taps) for every sample of every channel.
template <typename Body>
void for_each_sample(const KernelContext& context, const GridSampling& sampling, const Shape& output, Body body) {
  const Tensor &input = context.input(0), &grid = context.input(1);
  const std::size_t axes = sampling.extents.size();
  const std::vector<double> places = read<double>(grid);
  const std::int64_t channels = input.shape()[1], pixels = input.elements() / (input.shape()[0] * channels);
  const std::int64_t samples = element_count(output) / (output[0] * channels);
  std::vector<GridTap> taps(axes);
  for (std::int64_t sample = 0; sample < output[0] * samples; ++sample) {
    context.check_stop();
    for (std::size_t i = 0; i < axes; ++i) {
      // Coordinates are stored innermost axis first.
      const double place = places[sample * static_cast<std::int64_t>(axes) + static_cast<std::int64_t>(axes - 1 - i)];
      taps[i] = grid_tap(sampling, i, place, grid.dtype() != DType::f64);
    }
    const std::int64_t batch = sample / samples;
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t channel = batch * channels + c;
      body(channel * pixels, channel * samples + sample % samples, taps);
    }
  }
}

// Adds each neighbour's share of `gradient` to `dimage`, for the axes from `axis` on, and adds the derivatives of the
// sample along each axis to dplace. weights[i] is the product of the outer axes' weights, with the derivative of axis i
// in place of its weight; in the last entry no weight is replaced.
void spread(const double* image, double* dimage, const GridSampling& sampling, const std::vector<GridTap>& taps,
            std::size_t axis, std::int64_t offset, const std::vector<double>& weights, double gradient,
            std::vector<double>& dplace) {
  if (axis == taps.size()) {
    dimage[offset] += weights.back() * gradient;
    for (std::size_t i = 0; i < dplace.size(); ++i) dplace[i] += weights[i] * image[offset] * gradient;
    return;
  }
  for (int k = 0; k < taps[axis].count; ++k) {
    const std::int64_t pixel = grid_pixel(sampling, axis, taps[axis].first + k);
    if (pixel < 0) continue;
    std::vector<double> next = weights;
    for (std::size_t i = 0; i < next.size(); ++i) next[i] *= i == axis ? taps[axis].slopes[k] : taps[axis].weights[k];
    spread(image, dimage, sampling, taps, axis + 1, offset * sampling.extents[axis].size + pixel, next, gradient,
           dplace);
  }
}

// T: double, or std::complex<double> for complex elements.
template <typename T>
void sample_between(const KernelContext& context, const GridSampling& sampling, Tensor& output) {
  const std::vector<T> image = read<T>(context.input(0));
  std::vector<T> result = transient_vector<T>(output.elements());
  for_each_sample(context, sampling, output.shape(),
                  [&](std::int64_t from, std::int64_t to, const std::vector<GridTap>& taps) {
                    result[to] = interpolate(image.data() + from, sampling, taps, 0, 0);
                  });
  write(result, output);
}

}  // namespace

void grid_sample(KernelContext& context) {
  const Tensor& input = context.input(0);
  Tensor& output = context.output(0);
  if (output.elements() == 0) return;
  require(input.elements() > 0, ErrorKind::failed, "cannot sample an image {} without pixels",
          to_string(input.shape()));
  const GridSampling sampling = read_grid_sampling(context, context.input(0).shape());
  if (sampling.mode == GridMode::nearest) {
    // Copies elements, so that it supports every type.
    fill_zero(output);
    return for_each_sample(context, sampling, output.shape(),
                           [&](std::int64_t from, std::int64_t to, const std::vector<GridTap>& taps) {
                             const std::int64_t pixel = nearest_pixel(sampling, taps);
                             if (pixel >= 0) copy_element(input, from + pixel, output, to);
                           });
  }
  if (is_complex(input.dtype())) return sample_between<std::complex<double>>(context, sampling, output);
  sample_between<double>(context, sampling, output);
}

void grid_sample_gradient(KernelContext& context) {
  const Tensor &image = context.input(0), &grid = context.input(1), &given = context.input(2);
  const GridSampling sampling = read_grid_sampling(context, context.input(0).shape());
  const std::size_t axes = sampling.extents.size();
  const std::vector<double> x = read<double>(image), dy = read<double>(given);
  std::vector<double> dx = transient_vector<double>(image.elements(), 0.0),
                      dgrid = transient_vector<double>(grid.elements(), 0.0), dplace(axes);
  if (given.elements() > 0 && image.elements() > 0) {
    const std::int64_t channels = image.shape()[1], samples = given.elements() / (given.shape()[0] * channels);
    for_each_sample(
        context, sampling, given.shape(), [&](std::int64_t from, std::int64_t to, const std::vector<GridTap>& taps) {
          std::fill(dplace.begin(), dplace.end(), 0.0);
          spread(x.data() + from, dx.data() + from, sampling, taps, 0, 0, std::vector<double>(axes + 1, 1.0),
                 dy[static_cast<std::size_t>(to)], dplace);
          const std::int64_t place = to / (samples * channels) * samples + to % samples;
          for (std::size_t i = 0; i < axes; ++i) {
            // Coordinates are stored innermost axis first.
            dgrid[static_cast<std::size_t>(place) * axes + axes - 1 - i] += dplace[i] * grid_scale(sampling, i);
          }
        });
  }
  if (context.wants_output(0)) write(dx, context.output(0));
  if (context.wants_output(1)) write(dgrid, context.output(1));
}

// grid[n, position] = theta[n] · (coordinates of the position, innermost first, then 1); coordinates span [-1, 1]
// between centres (align_corners) or edges of the outermost pixels.
void affine_grid(KernelContext& context) {
  const std::vector<double> theta = read<double>(context.input(0));
  const Shape shape = ops::concrete_shape(
      ops::affine_grid_dims(ir::to_dims(context.input(0).shape()), ops::integers_of(context.input(1))));
  Tensor& output = context.allocate_output(0, shape);
  if (output.elements() == 0) return;
  const bool align_corners = context.integer("align_corners") != 0;
  const std::int64_t axes = shape.back();
  const Shape places(shape.begin(), shape.end() - 1);
  std::vector<double> result = transient_vector<double>(output.elements());
  for_each_index(places, [&](const std::vector<std::int64_t>& index, std::int64_t position) {
    for (std::int64_t row = 0; row < axes; ++row) {
      const double* weights = theta.data() + (index[0] * axes + row) * (axes + 1);
      double sum = weights[axes];
      for (std::int64_t column = 0; column < axes; ++column) {
        const std::int64_t axis = axes - column;
        const double size = static_cast<double>(places[axis]), i = static_cast<double>(index[axis]);
        const double coordinate = align_corners ? (size == 1 ? -1 : -1 + 2 * i / (size - 1)) : -1 + (2 * i + 1) / size;
        sum += weights[column] * coordinate;
      }
      result[position * axes + row] = sum;
    }
  });
  write(result, output);
}

}  // namespace tessera::backends::reference
