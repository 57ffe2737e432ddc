#include "ops/grid_sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "base/error.h"
#include "ops/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

enum class Padding { zeros, border, reflection };

// The positions an axis of `size` has, in pixels: its outermost centres (align_corners) or edges.
struct Extent {
  double low = 0, high = 0;
  std::int64_t size = 0;
};

// Folded at both ends until it lies within.
double reflect(double x, const Extent& extent) {
  const double range = extent.high - extent.low;
  if (range <= 0) return extent.low;
  const double beyond = x < extent.low ? extent.low - x : x - extent.high;
  if (beyond <= 0) return x;
  const double folds = std::floor(beyond / range), rest = beyond - folds * range;
  const bool from_low = (x < extent.low) == (std::fmod(folds, 2) == 0);
  return from_low ? extent.low + rest : extent.high - rest;
}

// The slope of reflect at x: each fold turns the direction around.
double reflection_slope(double x, const Extent& extent) {
  const double range = extent.high - extent.low;
  if (range <= 0) return 0;
  const double beyond = x < extent.low ? extent.low - x : x - extent.high;
  if (beyond <= 0) return 1;
  return std::fmod(std::floor(beyond / range), 2) == 0 ? -1 : 1;
}

// A normalised coordinate in pixels. Single precision is kept, because nearest mode rounds the result.
double denormalise(double n, std::int64_t size, bool align_corners, bool single) {
  const double length = static_cast<double>(size);
  if (single) {
    const float shifted = static_cast<float>(n) + 1.0f;
    return align_corners ? shifted / 2.0f * static_cast<float>(length - 1)
                         : (shifted * static_cast<float>(length) - 1.0f) / 2.0f;
  }
  return align_corners ? (n + 1) / 2 * (length - 1) : ((n + 1) * length - 1) / 2;
}

// The pixel that stands for index i, or -1 for a zero.
std::int64_t pixel_of(std::int64_t i, const Extent& extent, Padding padding) {
  if (i >= 0 && i < extent.size) return i;
  if (padding == Padding::zeros) return -1;
  const double inside = padding == Padding::border ? static_cast<double>(i) : reflect(static_cast<double>(i), extent);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(inside), 0, extent.size - 1);
}

struct Tap {
  std::int64_t first = 0;
  int count = 1;
  std::array<double, 4> weights{1, 0, 0, 0};
  std::array<double, 4> slopes{};  // of the weights, by the place before padding moved it
};

// R. Keys, "Cubic convolution interpolation for digital image processing" (1981), with a = -0.75.
Tap tap_at(double x, const std::string& mode) {
  if (mode == "nearest") return {static_cast<std::int64_t>(x), 1, {1, 0, 0, 0}};
  const double floor = std::floor(x), t = x - floor;
  const std::int64_t base = static_cast<std::int64_t>(floor);
  if (mode == "linear") return {base, 2, {1 - t, t, 0, 0}, {-1, 1, 0, 0}};
  const double a = -0.75;
  const auto far = [a](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  const auto near = [a](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far_slope = [a](double d) { return (3 * a * d - 10 * a) * d + 8 * a; };
  const auto near_slope = [a](double d) { return (3 * (a + 2) * d - 2 * (a + 3)) * d; };
  return {base - 1,
          4,
          {far(t + 1), near(t), near(1 - t), far(2 - t)},
          {far_slope(t + 1), near_slope(t), -near_slope(1 - t), -far_slope(2 - t)}};
}

// Weighted sum over the neighbours in all axes, innermost first as ONNX's nested interpolation has it.
template <typename T>
T interpolate(const T* image, const std::vector<Extent>& extents, const std::vector<Tap>& taps, std::size_t axis,
              std::int64_t offset, Padding padding) {
  T sum = 0;
  for (int i = 0; i < taps[axis].count; ++i) {
    const std::int64_t pixel = pixel_of(taps[axis].first + i, extents[axis], padding);
    if (pixel < 0) continue;
    const std::int64_t at = offset * extents[axis].size + pixel;
    const T value = axis + 1 == taps.size() ? image[at] : interpolate(image, extents, taps, axis + 1, at, padding);
    sum += taps[axis].weights[i] * value;
  }
  return sum;
}

// The one pixel that nearest mode takes, within its channel, or -1 for a zero.
std::int64_t nearest_pixel(const std::vector<Extent>& extents, const std::vector<Tap>& taps, Padding padding) {
  std::int64_t at = 0;
  for (std::size_t axis = 0; axis < taps.size(); ++axis) {
    const std::int64_t pixel = pixel_of(taps[axis].first, extents[axis], padding);
    if (pixel < 0) return -1;
    at = at * extents[axis].size + pixel;
  }
  return at;
}

struct Sampling {
  std::string mode;
  Padding padding;
  bool align_corners = false;
  std::vector<Extent> extents;
};

Sampling read_sampling(const KernelContext& context) {
  const std::string& padding = context.text("padding_mode");
  Sampling sampling{context.text("mode"),
                    padding == "zeros"    ? Padding::zeros
                    : padding == "border" ? Padding::border
                                          : Padding::reflection,
                    context.integer("align_corners") != 0,
                    {}};
  const Shape& shape = context.input(0).shape();
  for (std::size_t i = 2; i < shape.size(); ++i) {
    const double size = static_cast<double>(shape[i]);
    sampling.extents.push_back(sampling.align_corners ? Extent{0, size - 1, shape[i]}
                                                      : Extent{-0.5, size - 0.5, shape[i]});
  }
  return sampling;
}

// Calls body(input element 0, output element, taps) for every sample of every channel; input element 0 is that of the
// channel.
template <typename Body>
void for_each_sample(const KernelContext& context, const Sampling& sampling, const Shape& output, Body body) {
  const Tensor &input = context.input(0), &grid = context.input(1);
  const std::size_t axes = sampling.extents.size();
  const std::vector<double> places = read<double>(grid);
  const std::int64_t channels = input.shape()[1], pixels = input.elements() / (input.shape()[0] * channels);
  const std::int64_t samples = element_count(output) / (output[0] * channels);
  std::vector<Tap> taps(axes);
  for (std::int64_t sample = 0; sample < output[0] * samples; ++sample) {
    context.check_stop();
    for (std::size_t i = 0; i < axes; ++i) {
      const Extent& extent = sampling.extents[i];
      // Coordinates come innermost axis first; what is no number lies far outside.
      double x = denormalise(places[sample * static_cast<std::int64_t>(axes) + static_cast<std::int64_t>(axes - 1 - i)],
                             extent.size, sampling.align_corners, grid.dtype() != DType::f64);
      x = std::isnan(x) ? -1e15 : std::clamp(x, -1e15, 1e15);
      if (sampling.mode == "nearest") x = std::nearbyint(x);
      double slope = 1;
      if (x < extent.low || x > extent.high) {
        if (sampling.padding != Padding::zeros)
          slope = sampling.padding == Padding::border ? 0 : reflection_slope(x, extent);
        if (sampling.padding == Padding::border) x = std::clamp(x, 0.0, static_cast<double>(extent.size) - 1);
        else if (sampling.padding == Padding::reflection) x = reflect(x, extent);
      }
      taps[i] = tap_at(x, sampling.mode);
      for (double& each : taps[i].slopes) each *= slope;
    }
    const std::int64_t batch = sample / samples;
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t channel = batch * channels + c;
      body(channel * pixels, channel * samples + sample % samples, taps);
    }
  }
}

// Gives each neighbour of the axes from `axis` on its share of `gradient` in `dimage`, and adds to dplace the slopes of
// the sample along each axis; weights[i] is the product of the outer axes' weights, with the slope of axis i in place
// of its weight, and the last entry has none.
void spread(const double* image, double* dimage, const std::vector<Extent>& extents, const std::vector<Tap>& taps,
            std::size_t axis, std::int64_t offset, Padding padding, const std::vector<double>& weights, double gradient,
            std::vector<double>& dplace) {
  if (axis == taps.size()) {
    dimage[offset] += weights.back() * gradient;
    for (std::size_t i = 0; i < dplace.size(); ++i) dplace[i] += weights[i] * image[offset] * gradient;
    return;
  }
  for (int k = 0; k < taps[axis].count; ++k) {
    const std::int64_t pixel = pixel_of(taps[axis].first + k, extents[axis], padding);
    if (pixel < 0) continue;
    std::vector<double> next = weights;
    for (std::size_t i = 0; i < next.size(); ++i) next[i] *= i == axis ? taps[axis].slopes[k] : taps[axis].weights[k];
    spread(image, dimage, extents, taps, axis + 1, offset * extents[axis].size + pixel, padding, next, gradient,
           dplace);
  }
}

// T: double, or std::complex<double> for complex elements.
template <typename T>
void sample_between(const KernelContext& context, const Sampling& sampling, Tensor& output) {
  const std::vector<T> image = read<T>(context.input(0));
  std::vector<T> result = transient_vector<T>(output.elements());
  for_each_sample(context, sampling, output.shape(),
                  [&](std::int64_t from, std::int64_t to, const std::vector<Tap>& taps) {
                    result[to] = interpolate(image.data() + from, sampling.extents, taps, 0, 0, sampling.padding);
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
  const Sampling sampling = read_sampling(context);
  if (sampling.mode == "nearest") {
    // Picks elements, so that it serves every type.
    fill_zero(output);
    return for_each_sample(context, sampling, output.shape(),
                           [&](std::int64_t from, std::int64_t to, const std::vector<Tap>& taps) {
                             const std::int64_t pixel = nearest_pixel(sampling.extents, taps, sampling.padding);
                             if (pixel >= 0) copy_element(input, from + pixel, output, to);
                           });
  }
  if (is_complex(input.dtype())) return sample_between<std::complex<double>>(context, sampling, output);
  sample_between<double>(context, sampling, output);
}

void grid_sample_gradient(KernelContext& context) {
  const Tensor &image = context.input(0), &grid = context.input(1), &given = context.input(2);
  const Sampling sampling = read_sampling(context);
  const std::size_t axes = sampling.extents.size();
  const std::vector<double> x = read<double>(image), dy = read<double>(given);
  std::vector<double> dx = transient_vector<double>(image.elements(), 0.0),
                      dgrid = transient_vector<double>(grid.elements(), 0.0), dplace(axes);
  if (given.elements() > 0 && image.elements() > 0) {
    const std::int64_t channels = image.shape()[1], samples = given.elements() / (given.shape()[0] * channels);
    for_each_sample(context, sampling, given.shape(),
                    [&](std::int64_t from, std::int64_t to, const std::vector<Tap>& taps) {
                      std::fill(dplace.begin(), dplace.end(), 0.0);
                      spread(x.data() + from, dx.data() + from, sampling.extents, taps, 0, 0, sampling.padding,
                             std::vector<double>(axes + 1, 1.0), dy[static_cast<std::size_t>(to)], dplace);
                      const std::int64_t place = to / (samples * channels) * samples + to % samples;
                      for (std::size_t i = 0; i < axes; ++i) {
                        const double length = static_cast<double>(sampling.extents[i].size);
                        const double scale = (sampling.align_corners ? length - 1 : length) / 2;
                        // Coordinates come innermost axis first.
                        dgrid[static_cast<std::size_t>(place) * axes + axes - 1 - i] += dplace[i] * scale;
                      }
                    });
  }
  if (context.wants_output(0)) write(dx, context.output(0));
  if (context.wants_output(1)) write(dgrid, context.output(1));
}

// grid[n, place] = theta[n] (coordinates of the place, innermost first, then 1); centres of pixels span [-1, 1], at
// their centres (align_corners) or edges.
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
