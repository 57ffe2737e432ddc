// Channels-last convolution of 8-bit data with int8 weights (ops/quantised/quantised_layers.h).
#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/products/result_s8.h"
#include "backends/cpu/products/windows/window_product.h"

namespace tessera::backends::cpu {

std::string reject_conv_s8(const ops::NodeView& view) {
  if (std::string reason = reject_operands_s8(view); !reason.empty()) return reason;
  if (std::string reason = reject_channels_last_rank(view); !reason.empty()) return reason;
  return reject_few_outputs(view);
}

KernelPointer make_conv_s8(const ops::NodeView& view, WeightStore& weights) {
  return make_window_product_s8(view, weights, conv_layer(view));
}

}  // namespace tessera::backends::cpu
