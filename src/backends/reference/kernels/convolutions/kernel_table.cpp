#include "backends/reference/kernels/convolutions/kernel_table.h"

#include "backends/reference/kernels/convolutions/kernels.h"

namespace tessera::backends::reference {

std::span<const KernelEntry> convolution_kernels() {
  static const KernelEntry table[] = {
      // causal_conv_with_state
      {.op = "CausalConvWithState", .name = "reference_causal_conv_with_state", .function = causal_conv_with_state},
      // conv
      {.op = "Conv", .name = "reference_conv", .function = conv},
      // conv_transpose
      {.op = "ConvTranspose", .name = "reference_conv_transpose", .function = conv_transpose},
      // deform_conv
      {.op = "DeformConv", .name = "reference_deform_conv", .function = deform_conv},
      {.op = "tessera::DeformedWindows", .name = "reference_deformed_windows", .function = deformed_windows},
      {.op = "tessera::DeformedWindowsGradient",
       .name = "reference_deformed_windows_gradient",
       .function = deformed_windows_gradient},
      // col2im
      {.op = "Col2Im", .name = "reference_col2im", .function = col2im},
  };
  return table;
}

}  // namespace tessera::backends::reference
