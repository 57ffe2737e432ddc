#include "backends/cpu/convolutions/kernel_table.h"

#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/machine/operand_rules.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> convolution_kernels() {
  static const KernelEntry table[] = {
      // rounded to bfloat16
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_bf16_winograd",
       .reject = reject_winograd_bf16,
       .avoid = avoid_winograd_bf16,
       .create = make_winograd,
       .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_bf16_conv",
       .reject = reject_conv_bf16,
       .create = make_conv_bf16,
       .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_bf16_depthwise",
       .reject = reject_depthwise_bf16,
       .create = make_depthwise_bf16,
       .in_place_inputs = 1 << 3},
      // float32
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_channels_last_depthwise",
       .reject = reject_depthwise_f32,
       .create = make_depthwise_f32,
       .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_channels_last_winograd",
       .reject = reject_winograd_f32,
       .avoid = avoid_winograd_f32,
       .create = make_winograd,
       .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_channels_last_conv",
       .reject = reject_conv_f32,
       .create = make_conv_f32,
       .in_place_inputs = 1 << 3},
      {.op = "tessera::ChannelsLastConv",
       .name = "cpu_channels_last_pointwise",
       .reject = reject_pointwise_f32,
       .create = make_pointwise_f32},
      {.op = "tessera::ConvChain", .name = "cpu_conv_chain", .reject = reject_conv_chain, .create = make_conv_chain},
      {.op = "tessera::ChannelsLastConvTranspose",
       .name = "cpu_channels_last_conv_transpose",
       .reject = reject_conv_transpose_f32,
       .create = make_conv_transpose_f32},
      // 8-bit
      {.op = "tessera::QuantisedConv",
       .name = "cpu_quantised_depthwise",
       .reject = reject_depthwise_s8,
       .create = make_depthwise_s8},
      {.op = "tessera::QuantisedConv",
       .name = "cpu_quantised_conv",
       .reject = reject_conv_s8,
       .create = make_conv_s8,
       .in_place_inputs = 1 << 8},
      // the channels first
      {.op = "Conv",
       .name = "cpu_depthwise_conv_f32",
       .reject = reject_channels_first_depthwise_f32,
       .create = make_channels_first_depthwise_f32},
      {.op = "Conv", .name = "cpu_conv_f32", .reject = reject_unless_f32, .create = make_channels_first_conv_f32},
      {.op = "ConvTranspose",
       .name = "cpu_conv_transpose_f32",
       .reject = reject_channels_first_conv_transpose_f32,
       .create = make_channels_first_conv_transpose_f32},
  };
  return table;
}

}  // namespace tessera::backends::cpu
