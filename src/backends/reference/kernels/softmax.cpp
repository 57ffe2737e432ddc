#include <algorithm>
#include <cmath>

#include "backends/reference/kernels/kernels.h"
#include "backends/reference/numeric.h"

namespace tessera::backends::reference {
namespace {

// Calls body(offset, length, stride) for every line of `shape` along `axis`.
template <typename Body>
void for_each_line(const Shape& shape, std::int64_t axis, Body body) {
  std::int64_t outer = 1, inner = 1;
  for (std::int64_t i = 0; i < axis; ++i) outer *= shape[static_cast<std::size_t>(i)];
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < shape.size(); ++i) inner *= shape[i];
  const std::int64_t length = shape[static_cast<std::size_t>(axis)];
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) body(o * length * inner + i, length, inner);
  }
}

}  // namespace

void softmax(KernelContext& context) {
  std::vector<double> x = read<double>(context.input(0));
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), context.input(0).rank());
  for_each_line(context.input(0).shape(), axis, [&](std::int64_t offset, std::int64_t length, std::int64_t stride) {
    double largest = -INFINITY, sum = 0;
    for (std::int64_t i = 0; i < length; ++i) largest = std::max(largest, x[static_cast<std::size_t>(offset + i * stride)]);
    for (std::int64_t i = 0; i < length; ++i) {
      double& value = x[static_cast<std::size_t>(offset + i * stride)];
      value = std::exp(value - largest);
      sum += value;
    }
    for (std::int64_t i = 0; i < length; ++i) x[static_cast<std::size_t>(offset + i * stride)] /= sum;
  });
  write(x, context.output(0));
}

}  // namespace tessera::backends::reference
