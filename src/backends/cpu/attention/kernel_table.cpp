#include "backends/cpu/attention/kernel_table.h"

#include "backends/cpu/attention/kernels.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> attention_kernels() {
  static const KernelEntry table[] = {
      // attention
      {.op = "Attention", .name = "cpu_attention", .reject = reject_attention, .create = make_attention},
      {.op = "Attention", .name = "cpu_attention_bf16", .reject = reject_bf16_attention, .create = make_bf16_attention},
  };
  return table;
}

}  // namespace tessera::backends::cpu
