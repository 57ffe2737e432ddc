#include "backends/cpu/optimisers/kernel_table.h"

#include "backends/cpu/optimisers/kernels.h"
#include "ops/training/optimiser_step.h"
#include "ops/training/row_optimiser_step.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> optimiser_kernels() {
  static const KernelEntry table[] = {
      // global_norm
      {.op = "tessera::GlobalNorm",
       .name = "cpu_global_norm",
       .reject = reject_global_norm,
       .create = make_global_norm},
      // optimiser_step
      {.op = "tessera::OptimiserStep",
       .name = "cpu_optimiser_step",
       .reject = reject_optimiser_step,
       .create = make_optimiser_step,
       .in_place_pair = ops::optimiser_updates_in_place},
      // row_optimiser_step
      {.op = "tessera::RowOptimiserStep",
       .name = "cpu_row_optimiser_step",
       .reject = reject_row_optimiser_step,
       .create = make_row_optimiser_step,
       .in_place_pair = ops::row_step_updates_in_place},
  };
  return table;
}

}  // namespace tessera::backends::cpu
