#include "backends/reference/kernels/pooling/kernel_table.h"

#include "backends/reference/kernels/pooling/kernels.h"

namespace tessera::backends::reference {

std::span<const KernelEntry> pooling_kernels() {
  static const KernelEntry table[] = {
      // max_pool_gradient
      {.op = "tessera::MaxPoolGradient", .name = "reference_max_pool_gradient", .function = max_pool_gradient},
      // pooling
      {.op = "AveragePool", .name = "reference_average_pool", .function = average_pool},
      {.op = "tessera::AveragePoolGradient",
       .name = "reference_average_pool_gradient",
       .function = average_pool_gradient},
      {.op = "MaxPool", .name = "reference_max_pool", .function = max_pool},
      {.op = "LpPool", .name = "reference_lp_pool", .function = lp_pool},
      {.op = "MaxUnpool", .name = "reference_max_unpool", .function = max_unpool},
      {.op = "GlobalAveragePool", .name = "reference_global_average_pool", .function = global_average_pool},
      {.op = "GlobalMaxPool", .name = "reference_global_max_pool", .function = global_max_pool},
      {.op = "GlobalLpPool", .name = "reference_global_lp_pool", .function = global_lp_pool},
  };
  return table;
}

}  // namespace tessera::backends::reference
