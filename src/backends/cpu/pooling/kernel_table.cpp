#include "backends/cpu/pooling/kernel_table.h"

#include "backends/cpu/pooling/kernels.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> pooling_kernels() {
  static const KernelEntry table[] = {
      // max_pool_rows
      {.op = "tessera::ChannelsLastMaxPool",
       .name = "cpu_max_pool_bytes",
       .reject = reject_max_pool_bytes,
       .create = make_max_pool_bytes},
      {.op = "tessera::ChannelsLastMaxPool",
       .name = "cpu_max_pool_bf16",
       .reject = reject_max_pool_bf16,
       .create = make_max_pool_bf16},
      // pooling
      {.op = "MaxPool", .name = "cpu_max_pool_f32", .reject = reject_pool, .create = make_max_pool},
      {.op = "AveragePool", .name = "cpu_average_pool_f32", .reject = reject_pool, .create = make_average_pool},
      {.op = "GlobalAveragePool",
       .name = "cpu_global_average_pool_f32",
       .reject = reject_global_pool,
       .function = global_average_pool},
      {.op = "GlobalMaxPool",
       .name = "cpu_global_max_pool_f32",
       .reject = reject_global_pool,
       .function = global_max_pool},
  };
  return table;
}

}  // namespace tessera::backends::cpu
