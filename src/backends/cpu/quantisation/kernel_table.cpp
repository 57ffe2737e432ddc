#include "backends/cpu/quantisation/kernel_table.h"

#include "backends/cpu/quantisation/kernels.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> quantisation_kernels() {
  static const KernelEntry table[] = {
      // add_s8
      {.op = "com.microsoft::QLinearAdd",
       .name = "cpu_quantised_add",
       .reject = reject_add_s8,
       .function = add_s8,
       .in_place_inputs = 1 | 8},
      // quantisation
      {.op = "DequantizeLinear",
       .name = "cpu_dequantize_linear",
       .reject = reject_quantisation,
       .create = make_quantisation},
      {.op = "DynamicQuantizeLinear", .name = "cpu_dynamic_quantize_linear", .create = make_dynamic_quantisation},
      {.op = "QuantizeLinear",
       .name = "cpu_quantize_linear",
       .reject = reject_quantisation,
       .create = make_quantisation},
  };
  return table;
}

}  // namespace tessera::backends::cpu
