#include <algorithm>
#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/reference/window_loops.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// Values minus their zero point: one zero point, or one for each of `channels` equal parts.
std::vector<std::int64_t> without_zero_point(const Tensor& tensor, const Tensor* zero_point, std::int64_t channels) {
  std::vector<std::int64_t> values = read<std::int64_t>(tensor);
  if (zero_point == nullptr || values.empty()) return values;
  const std::vector<std::int64_t> zeros = read<std::int64_t>(*zero_point);
  const std::size_t part = zeros.size() == 1 ? values.size() : values.size() / static_cast<std::size_t>(channels);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= zeros[i / part];
  return values;
}

std::vector<std::int64_t> accumulate(KernelContext& context, std::size_t x_index, std::size_t w_index,
                                     std::size_t x_zero, std::size_t w_zero, const std::vector<std::int64_t>& bias) {
  const Tensor &x = context.input(x_index), &w = context.input(w_index);
  const auto zero = [&](std::size_t i) { return context.has_input(i) ? &context.input(i) : nullptr; };
  const std::vector<ops::WindowAxis> axes = ops::convolution_geometry(context, x.shape(), w.shape());
  std::vector<std::int64_t> y = start_from_bias(bias, context.output(0).shape());
  convolve(context, WindowRows(axes, false), context.integer("group"), x.shape(), w.shape(),
           without_zero_point(x, zero(x_zero), 1), without_zero_point(w, zero(w_zero), w.shape()[0]), y);
  return y;
}

}  // namespace

void conv_integer(KernelContext& context) {
  write(accumulate(context, 0, 1, 2, 3, {}), context.output(0));
}

void q_linear_conv(KernelContext& context) {
  const std::vector<std::int64_t> bias =
      context.has_input(8) ? read<std::int64_t>(context.input(8)) : std::vector<std::int64_t>{};
  const std::vector<std::int64_t> sums = accumulate(context, 0, 3, 2, 5, bias);
  const double x_scale = read<double>(context.input(1))[0], y_scale = read<double>(context.input(6))[0];
  const std::vector<double> w_scales = read<double>(context.input(4));
  const double zero = static_cast<double>(read<std::int64_t>(context.input(7))[0]);
  Tensor& y = context.output(0);
  const double low = y.dtype() == DType::i8 ? -128 : 0, high = low + 255;
  const std::size_t channels = static_cast<std::size_t>(y.shape()[1]);
  const std::size_t inner = sums.empty() ? 1 : sums.size() / (channels * static_cast<std::size_t>(y.shape()[0]));
  std::vector<std::int64_t> result(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double w_scale = w_scales.size() == 1 ? w_scales[0] : w_scales[i / inner % channels];
    const double value = std::nearbyint(static_cast<double>(sums[i]) * (x_scale * w_scale / y_scale)) + zero;
    result[i] = static_cast<std::int64_t>(std::isnan(value) ? zero : std::clamp(value, low, high));
  }
  write(result, y);
}

}  // namespace tessera::backends::reference
