#include "backends/cpu/convolutions/kernel_table.h"

#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/products/kernels.h"
#include "backends/cpu/machine/operand_rules.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> convolution_kernels() {
  static const KernelEntry table[] = {
      // bf16_product
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_bf16_winograd",
       .reject = reject_bf16_winograd,
       .avoid = avoid_bf16_winograd,
       .create = make_channels_last_winograd,
       .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_bf16_conv",
       .reject = reject_bf16_conv,
       .create = make_bf16_conv,
       .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_bf16_depthwise",
       .reject = reject_bf16_depthwise,
       .create = make_bf16_depthwise,
       .in_place_inputs = 1 << 3},
      {.op = "tessera::Linear",
       .name = "cpu_bf16_linear",
       .reject = reject_bf16_linear,
       .create = make_bf16_linear,
       .in_place_inputs = 1 << 3},
      // channels_last_conv
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_channels_last_depthwise",
       .reject = reject_channels_last_depthwise,
       .create = make_channels_last_depthwise,
       .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_channels_last_winograd",
       .reject = reject_channels_last_winograd,
       .avoid = avoid_channels_last_winograd,
       .create = make_channels_last_winograd,
       .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_channels_last_conv",
       .reject = reject_channels_last_conv,
       .create = make_channels_last_conv,
       .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_channels_last_pointwise",
       .reject = reject_channels_last_pointwise,
       .create = make_channels_last_pointwise},
      // conv_chain
      {.op = "tessera::ConvChain", .name = "cpu_conv_chain", .reject = reject_conv_chain, .create = make_conv_chain},
      // channels_last_conv_transpose
      {.op = "tessera::ChannelsLastConvTranspose",
       .name = "cpu_channels_last_conv_transpose",
       .reject = reject_channels_last_conv_transpose,
       .create = make_channels_last_conv_transpose},
      // channels_last_window
      {.op = "tessera::ChannelsLastMaxPool",
       .name = "cpu_channels_last_max_pool",
       .reject = reject_channels_last_pool,
       .create = make_channels_last_max_pool},
      {.op = "tessera::ChannelsLastAveragePool",
       .name = "cpu_channels_last_average_pool",
       .reject = reject_channels_last_pool,
       .create = make_channels_last_average_pool},
      // conv_s8
      {.op = "tessera::QuantisedConv",
       .name = "cpu_quantised_depthwise",
       .reject = reject_quantised_depthwise,
       .create = make_quantised_depthwise},
      {.op = "tessera::QuantisedConv",
       .name = "cpu_quantised_conv",
       .reject = reject_quantised_conv,
       .create = make_quantised_conv,
       .in_place_inputs = 1 << 8},
      {.op = "tessera::QuantisedLinear",
       .name = "cpu_quantised_linear",
       .reject = reject_quantised_linear,
       .create = make_quantised_linear,
       .in_place_inputs = 1 << 8},
      // conv_depthwise
      {.op = "Conv", .name = "cpu_depthwise_conv_f32", .reject = reject_depthwise_conv, .create = make_depthwise_conv},
      // conv
      {.op = "Conv", .name = "cpu_conv_f32", .reject = reject_unless_f32, .create = make_conv},
      // conv_transpose
      {.op = "ConvTranspose",
       .name = "cpu_conv_transpose_f32",
       .reject = reject_conv_transpose,
       .create = make_conv_transpose},
  };
  return table;
}

}  // namespace tessera::backends::cpu
