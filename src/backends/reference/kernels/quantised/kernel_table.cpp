#include "backends/reference/kernels/quantised/kernel_table.h"

#include "backends/reference/kernels/quantised/kernels.h"

namespace tessera::backends::reference {

std::span<const KernelEntry> quantised_kernels() {
  static const KernelEntry table[] = {
      // quantisation
      {.op = "QuantizeLinear", .name = "reference_quantize_linear", .function = quantize_linear},
      {.op = "DequantizeLinear", .name = "reference_dequantize_linear", .function = dequantize_linear},
      {.op = "DynamicQuantizeLinear", .name = "reference_dynamic_quantize_linear", .function = dynamic_quantize_linear},
      // conv_integer
      {.op = "ConvInteger", .name = "reference_conv_integer", .function = conv_integer},
      {.op = "QLinearConv", .name = "reference_q_linear_conv", .function = q_linear_conv},
  };
  return table;
}

}  // namespace tessera::backends::reference
