#include "ops/rows/layer_normalisation_gradient.h"

#include <cmath>

#include "backends/host/numeric.h"
#include "backends/reference/kernels/rows/kernels.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

void row_gradients(KernelContext& context, bool centres) {
  const std::vector<double> dy = read<double>(context.input(0)), x = read<double>(context.input(1)),
                            scale = read<double>(context.input(2));
  const std::size_t count = scale.size();
  const double share = 1 / static_cast<double>(count), epsilon = context.real("epsilon");
  std::vector<double> dx(x.size()), scales(count, 0.0), shifts(count, 0.0);
  for (std::size_t row = 0; row < x.size(); row += count) {
    double mean = 0, squares = 0, sum = 0, product = 0;
    for (std::size_t i = 0; centres && i < count; ++i) mean += x[row + i] * share;
    for (std::size_t i = 0; i < count; ++i) squares += (x[row + i] - mean) * (x[row + i] - mean) * share;
    const double inverse = 1 / std::sqrt(squares + epsilon);
    const auto hat = [&](std::size_t i) { return (x[row + i] - mean) * inverse; };
    for (std::size_t i = 0; i < count; ++i) {
      if (centres) sum += dy[row + i] * scale[i] * share;
      product += dy[row + i] * scale[i] * hat(i) * share;
    }
    for (std::size_t i = 0; i < count; ++i) {
      dx[row + i] = inverse * (dy[row + i] * scale[i] - sum - hat(i) * product);
      scales[i] += dy[row + i] * hat(i);
      shifts[i] += dy[row + i];
    }
  }
  write(dx, context.output(0));
  write(scales, context.output(1));
  if (centres) write(shifts, context.output(2));
}

}  // namespace

void layer_normalization_gradient(KernelContext& context) {
  row_gradients(context, true);
}
void rms_normalization_gradient(KernelContext& context) {
  row_gradients(context, false);
}

}  // namespace tessera::backends::reference
