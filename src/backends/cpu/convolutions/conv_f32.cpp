// Channels-last convolution in float32: an indirect product of its windows with packed weights.
#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/line_conv.h"
#include "backends/cpu/products/windows/window_product.h"

namespace tessera::backends::cpu {

std::string reject_conv_f32(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_operands(view); !reason.empty()) return reason;
  return reject_few_outputs(view);
}

std::unique_ptr<LineKernel> make_line_conv_f32(const ops::NodeView& view, WeightStore& weights) {
  return make_window_product_f32(view, weights, conv_layer(view), "channels_last_conv_v1");
}

KernelPointer make_conv_f32(const ops::NodeView& view, WeightStore& weights) {
  return make_line_conv_f32(view, weights);
}

}  // namespace tessera::backends::cpu
