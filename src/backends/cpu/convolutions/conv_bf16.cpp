// Channels-last convolution with data and weights rounded to bfloat16 (ops/products/rounded_product.h).
#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/line_conv.h"
#include "backends/cpu/products/windows/window_product.h"

namespace tessera::backends::cpu {

std::string reject_conv_bf16(const ops::NodeView& view) {
  if (std::string reason = reject_operands_bf16(view); !reason.empty()) return reason;
  if (std::string reason = reject_channels_last_rank(view); !reason.empty()) return reason;
  return reject_few_outputs(view);
}

std::unique_ptr<LineKernel> make_line_conv_bf16(const ops::NodeView& view, WeightStore& weights) {
  return make_window_product_bf16(view, weights, conv_layer(view));
}

KernelPointer make_conv_bf16(const ops::NodeView& view, WeightStore& weights) {
  return make_line_conv_bf16(view, weights);
}

}  // namespace tessera::backends::cpu
