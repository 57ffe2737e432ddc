#include "backends/cpu/pooling/kernel_table.h"

#include "backends/cpu/pooling/kernels.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> pooling_kernels() {
  static const KernelEntry table[] = {
      // pool_f32
      {.op = "tessera::ChannelsLastMaxPool",
       .name = "cpu_channels_last_max_pool",
       .reject = reject_pool_f32,
       .create = make_max_pool_f32},
      {.op = "tessera::ChannelsLastAveragePool",
       .name = "cpu_channels_last_average_pool",
       .reject = reject_pool_f32,
       .create = make_average_pool_f32},
      // max_pool_rows
      {.op = "tessera::ChannelsLastMaxPool",
       .name = "cpu_max_pool_bytes",
       .reject = reject_max_pool_bytes,
       .create = make_max_pool_bytes},
      {.op = "tessera::ChannelsLastMaxPool",
       .name = "cpu_max_pool_bf16",
       .reject = reject_max_pool_bf16,
       .create = make_max_pool_bf16},
      // max_pool_gradient_f32
      {.op = "tessera::MaxPoolGradient",
       .name = "cpu_max_pool_gradient",
       .reject = reject_max_pool_gradient_f32,
       .create = make_max_pool_gradient_f32},
      // average_pool_gradient_f32
      {.op = "tessera::AveragePoolGradient",
       .name = "cpu_average_pool_gradient",
       .reject = reject_average_pool_gradient_f32,
       .create = make_average_pool_gradient_f32},
      // channels_first_pool_f32
      {.op = "MaxPool",
       .name = "cpu_max_pool_f32",
       .reject = reject_channels_first_pool_f32,
       .create = make_channels_first_max_pool_f32},
      {.op = "AveragePool",
       .name = "cpu_average_pool_f32",
       .reject = reject_channels_first_pool_f32,
       .create = make_channels_first_average_pool_f32},
      {.op = "GlobalAveragePool",
       .name = "cpu_global_average_pool_f32",
       .reject = reject_channels_first_global_pool_f32,
       .function = channels_first_global_average_pool_f32},
      {.op = "GlobalMaxPool",
       .name = "cpu_global_max_pool_f32",
       .reject = reject_channels_first_global_pool_f32,
       .function = channels_first_global_max_pool_f32},
  };
  return table;
}

}  // namespace tessera::backends::cpu
