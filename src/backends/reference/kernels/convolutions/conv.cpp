#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/reference/window_loops.h"

namespace tessera::backends::reference {

using namespace host;

void conv(KernelContext& context) {
  const Tensor &x = context.input(0), &w = context.input(1);
  const std::vector<ops::WindowAxis> axes = ops::convolution_geometry(context, x.shape(), w.shape());
  const std::vector<double> bias = context.has_input(2) ? read<double>(context.input(2)) : std::vector<double>{};
  std::vector<double> y = start_from_bias(bias, context.output(0).shape());
  convolve(context, WindowRows(axes, false), context.integer("group"), x.shape(), w.shape(), read<double>(x),
           read<double>(w), y);
  write(y, context.output(0));
}

}  // namespace tessera::backends::reference
