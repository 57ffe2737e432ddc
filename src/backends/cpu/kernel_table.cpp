#include "backends/cpu/kernel_table.h"

#include "backends/cpu/attention/kernel_table.h"
#include "backends/cpu/classical/kernel_table.h"
#include "backends/cpu/convolutions/kernel_table.h"
#include "backends/cpu/element_wise/kernel_table.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/movement/kernel_table.h"
#include "backends/cpu/optimisers/kernel_table.h"
#include "backends/cpu/pooling/kernel_table.h"
#include "backends/cpu/products/kernel_table.h"
#include "backends/cpu/quantisation/kernel_table.h"
#include "backends/cpu/recurrent/kernel_table.h"
#include "backends/cpu/rows/kernel_table.h"
#include "backends/cpu/sampling/kernel_table.h"
#include "backends/cpu/trees/kernel_table.h"

namespace tessera::backends::cpu {

std::vector<std::span<const KernelEntry>> kernel_tables() {
  initialise_simd();
  return {
      convolution_kernels(), product_kernels(),  attention_kernels(),    recurrent_kernels(),    pooling_kernels(),
      row_kernels(),         movement_kernels(), element_wise_kernels(), quantisation_kernels(), optimiser_kernels(),
      sampling_kernels(),    tree_kernels(),     classical_kernels(),
  };
}

}  // namespace tessera::backends::cpu
