#include "ops/sampling/resize.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "base/error.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

using ops::ResizedAxis;
using ops::ResizeMode;
using Taps = ops::ResizeTaps;

std::vector<Taps> taps_of(const ops::AttributeReader& reader, const ResizedAxis& axis, std::int64_t input) {
  std::vector<Taps> result = transient_vector<Taps>(axis.size);
  for (std::int64_t i = 0; i < axis.size; ++i) result[i] = ops::resize_taps(reader, axis, i, input);
  return result;
}

bool unchanged(const ResizedAxis& axis, std::int64_t input) {
  return axis.size == input && axis.scale == 1 && axis.roi_start == 0 && axis.roi_end == 1;
}

// Copies elements, so that it supports every type.
void resize_nearest(const ops::AttributeReader& reader, const std::vector<ResizedAxis>& axes, const Tensor& input,
                    Tensor& output) {
  std::vector<std::vector<Taps>> taps;
  for (std::size_t i = 0; i < axes.size(); ++i) taps.push_back(taps_of(reader, axes[i], input.shape()[i]));
  Tensor extrapolation(output.dtype(), {1});
  fill_zero(extrapolation);
  if (output.dtype() != DType::string) write(std::vector<double>{reader.real("extrapolation_value")}, extrapolation);
  const std::vector<std::int64_t> strides = strides_of(input.shape());
  for_each_index(output.shape(), [&](const std::vector<std::int64_t>& index, std::int64_t position) {
    std::int64_t from = 0;
    bool outside = false;
    for (std::size_t i = 0; i < index.size(); ++i) {
      const Taps& tap = taps[i][index[i]];
      outside = outside || tap.outside;
      from += std::clamp<std::int64_t>(tap.first, 0, input.shape()[i] - 1) * strides[i];
    }
    copy_element(outside ? extrapolation : input, outside ? 0 : from, output, position);
  });
}

template <typename T>
std::vector<T> resize_axis(const KernelContext& context, const std::vector<T>& values, const AxisView& view,
                           const std::vector<Taps>& taps, double extrapolation) {
  const std::int64_t size = static_cast<std::int64_t>(taps.size());
  std::vector<T> result =
      transient_vector<T>(base::checked_multiply(base::checked_multiply(view.outer, size), view.inner));
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (std::int64_t x = 0; x < size; ++x) {
      context.check_stop();
      for (std::int64_t i = 0; i < view.inner; ++i) {
        T sum = 0;
        for (std::size_t t = 0; t < taps[x].weights.size(); ++t) {
          const std::int64_t from =
              std::clamp<std::int64_t>(taps[x].first + static_cast<std::int64_t>(t), 0, view.length - 1);
          sum += taps[x].weights[t] * values[(o * view.length + from) * view.inner + i];
        }
        result[(o * size + x) * view.inner + i] = taps[x].outside ? T(extrapolation) : sum;
      }
    }
  }
  return result;
}

// Resizes along one axis after the other. T: double, or std::complex<double> for complex elements.
template <typename T>
std::vector<T> interpolate(const KernelContext& context, const std::vector<ResizedAxis>& axes, const Tensor& input) {
  std::vector<T> values = read<T>(input);
  Shape current = input.shape();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (unchanged(axes[i], current[i])) continue;
    values = resize_axis(context, values, axis_view(current, static_cast<std::int64_t>(i)),
                         taps_of(context, axes[i], current[i]), context.real("extrapolation_value"));
    current[i] = axes[i].size;
  }
  return values;
}

// The transpose of resize_axis: adds elements to the positions that they were interpolated from.
std::vector<double> unresize_axis(const KernelContext& context, const std::vector<double>& values, const AxisView& view,
                                  const std::vector<Taps>& taps) {
  const std::int64_t size = static_cast<std::int64_t>(taps.size());
  std::vector<double> result = transient_vector<double>(
      base::checked_multiply(base::checked_multiply(view.outer, view.length), view.inner), 0.0);
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (std::int64_t x = 0; x < size; ++x) {
      context.check_stop();
      if (taps[x].outside) continue;
      for (std::size_t t = 0; t < taps[x].weights.size(); ++t) {
        const std::int64_t to =
            std::clamp<std::int64_t>(taps[x].first + static_cast<std::int64_t>(t), 0, view.length - 1);
        for (std::int64_t i = 0; i < view.inner; ++i)
          result[(o * view.length + to) * view.inner + i] +=
              taps[x].weights[t] * values[(o * size + x) * view.inner + i];
      }
    }
  }
  return result;
}

// Integers are rounded to nearest even and saturate.
void saturate(std::vector<double>& values, DType type) {
  if (!is_integer(type)) return;
  const int bits = bits_of(type);
  const double largest = std::ldexp(1.0, is_signed_integer(type) ? bits - 1 : bits) - 1;
  const double smallest = is_signed_integer(type) ? -largest - 1 : 0;
  for (double& value : values) value = std::clamp(std::nearbyint(value), smallest, largest);
}

}  // namespace

void resize(KernelContext& context) {
  const Tensor& input = context.input(0);
  const auto given = [&](std::size_t i) {
    return context.has_input(i) && context.input(i).elements() > 0 ? &context.input(i) : nullptr;
  };
  // A tensor of rank 0 has empty scales or sizes.
  const Tensor* scales =
      given(2) != nullptr || !context.has_input(2) || given(3) != nullptr ? given(2) : &context.input(2);
  const Tensor* sizes =
      given(3) != nullptr || scales != nullptr || !context.has_input(3) ? given(3) : &context.input(3);
  const std::vector<ResizedAxis> axes = ops::resolve_resize(context, input.shape(), given(1), scales, sizes);
  Shape shape;
  for (const ResizedAxis& axis : axes) shape.push_back(axis.size);
  Tensor& output = context.allocate_output(0, shape);
  if (output.elements() == 0) return;
  require(input.elements() > 0, ErrorKind::failed, "cannot resize {} to {}", to_string(input.shape()),
          to_string(shape));
  if (ops::resize_mode(context) == ResizeMode::nearest) return resize_nearest(context, axes, input, output);
  if (is_complex(input.dtype())) return write(interpolate<std::complex<double>>(context, axes, input), output);
  std::vector<double> values = interpolate<double>(context, axes, input);
  saturate(values, output.dtype());
  write(values, output);
}

void resize_gradient(KernelContext& context) {
  const Shape shape = read<std::int64_t>(context.input(1));
  const auto given = [&](std::size_t i) {
    return context.has_input(i) && context.input(i).elements() > 0 ? &context.input(i) : nullptr;
  };
  Tensor& output = context.allocate_output(0, shape);
  std::vector<double> values = read<double>(context.input(0));
  if (!shape.empty() && output.elements() > 0) {
    const std::vector<ResizedAxis> axes = ops::resolve_resize(context, shape, given(2), given(3), given(4));
    Shape current;
    for (const ResizedAxis& axis : axes) current.push_back(axis.size);
    require(context.input(0).shape() == current, ErrorKind::failed, "'dY' has shape {}, expected {}",
            to_string(context.input(0).shape()), to_string(current));
    for (std::size_t i = axes.size(); i-- > 0;) {
      const bool nearest = ops::resize_mode(context) == ResizeMode::nearest;
      if (!nearest && unchanged(axes[i], shape[i])) continue;
      const std::vector<Taps> taps = taps_of(context, axes[i], shape[i]);
      current[i] = shape[i];
      values = unresize_axis(context, values, axis_view(current, static_cast<std::int64_t>(i)), taps);
    }
  }
  write(values, output);
}

}  // namespace tessera::backends::reference
