#include "backends/cuda/element_wise/broadcast_axes.h"

namespace tessera::backends::cuda {
namespace {

// The stride of the input along the output's axis.
std::int64_t stride_along(const Shape& input, const Shape& output, std::size_t axis) {
  const std::size_t missing = output.size() - input.size();
  if (axis < missing || input[axis - missing] == 1) return 0;
  std::int64_t stride = 1;
  for (std::size_t inner = axis - missing + 1; inner < input.size(); ++inner) stride *= input[inner];
  return stride;
}

// Whether `next` is passed through by all inputs right after one step of `axis`.
bool continues(const BroadcastAxis& axis, const BroadcastAxis& next) {
  for (std::size_t i = 0; i < axis.strides.size(); ++i) {
    if (axis.strides[i] != next.strides[i] * next.size) return false;
  }
  return true;
}

}  // namespace

std::vector<BroadcastAxis> broadcast_axes(const ops::NodeView& view, std::size_t inputs) {
  const Shape& output = view.output(0).shape;
  std::vector<BroadcastAxis> axes;
  for (std::size_t axis = 0; axis < output.size(); ++axis) {
    BroadcastAxis next{output[axis], {}};
    for (std::size_t i = 0; i < inputs; ++i) next.strides.push_back(stride_along(view.input(i).shape, output, axis));
    if (next.size == 1) continue;
    if (!axes.empty() && continues(axes.back(), next)) {
      axes.back().size *= next.size;
      axes.back().strides = next.strides;
    } else {
      axes.push_back(std::move(next));
    }
  }
  return axes;
}

}  // namespace tessera::backends::cuda
