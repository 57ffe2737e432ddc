// Channels-last 1 × 1 convolution, transposed or not, in float32: the product of a matrix of pixels with the weights.
#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/products/linear_f32.h"

namespace tessera::backends::cpu {

std::string reject_pointwise_f32(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_operands(view); !reason.empty()) return reason;
  return view.integer("group") == 1 && is_pointwise(channels_last_conv_geometry(view))
             ? ""
             : "windows are more than a pixel";
}

KernelPointer make_pointwise_f32(const ops::NodeView& view, WeightStore& weights) {
  return make_packed_linear_f32(view, weights, true);
}

std::string reject_pointwise_transpose_f32(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_operands(view); !reason.empty()) return reason;
  return view.integer("group") == 1 && is_pointwise(channels_last_conv_transpose_geometry(view))
             ? ""
             : "windows are more than a pixel";
}

KernelPointer make_pointwise_transpose_f32(const ops::NodeView& view, WeightStore& weights) {
  return make_packed_linear_f32(view, weights, false);
}

}  // namespace tessera::backends::cpu
