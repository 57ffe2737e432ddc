#include "ops/pooling/max_pool_gradient.h"

#include "backends/host/numeric.h"
#include "backends/reference/kernels/pooling/kernels.h"
#include "backends/reference/window_loops.h"
#include "ops/convolutions/channels_last.h"

namespace tessera::backends::reference {

using namespace host;

void max_pool_gradient(KernelContext& context) {
  const std::vector<double> g = read<double>(context.input(0)), x = read<double>(context.input(1)),
                            y = read<double>(context.input(2));
  const Shape& given = context.input(1).shape();
  const std::vector<ops::WindowAxis> axes = ops::max_pool_gradient_geometry(context, given);
  const bool last = ops::has_channels_last(context, given.size());
  const Shape shape = last ? ops::channels_first(given) : given;
  const std::int64_t channels = shape[1];
  Shape windows, kernel, spatial(shape.begin() + 2, shape.end());
  for (const ops::WindowAxis& axis : axes) windows.push_back(axis.output), kernel.push_back(axis.kernel);
  const std::vector<std::int64_t> strides = strides_of(spatial);
  const std::int64_t inputs = element_count(spatial), outputs = element_count(windows);
  // The index of an element of an image.
  const auto at = [&](std::int64_t plane, std::int64_t position, std::int64_t positions) {
    return static_cast<std::size_t>(last ? (plane / channels * positions + position) * channels + plane % channels
                                         : plane * positions + position);
  };
  std::vector<double> dx(x.size(), 0.0);
  std::vector<std::int64_t> window(axes.size(), 0);
  for (std::int64_t o = 0; o < outputs; ++o, advance(window, windows)) {
    context.check_stop();
    // Indices of the elements under the window, in order.
    std::vector<std::int64_t> taken, tap(axes.size(), 0);
    if (element_count(kernel) > 0) {
      do {
        std::int64_t position = 0;
        bool inside = true;
        for (std::size_t i = 0; i < axes.size(); ++i) {
          const std::int64_t p = window[i] * axes[i].stride - axes[i].pad_begin + tap[i] * axes[i].dilation;
          inside = inside && p >= 0 && p < axes[i].input;
          position += p * strides[i];
        }
        if (inside) taken.push_back(position);
      } while (advance(tap, kernel));
    }
    for (std::int64_t plane = 0; plane < shape[0] * channels; ++plane) {
      for (const std::int64_t position : taken) {
        if (x[at(plane, position, inputs)] < y[at(plane, o, outputs)]) continue;
        dx[at(plane, position, inputs)] += g[at(plane, o, outputs)];
        break;
      }
    }
  }
  write(dx, context.output(0));
}

}  // namespace tessera::backends::reference
