#include "backends/reference/kernels/attention/kernel_table.h"

#include <vector>

#include "backends/reference/kernels/classical/kernel_table.h"
#include "backends/reference/kernels/convolutions/kernel_table.h"
#include "backends/reference/kernels/element_wise/kernel_table.h"
#include "backends/reference/kernels/movement/kernel_table.h"
#include "backends/reference/kernels/pooling/kernel_table.h"
#include "backends/reference/kernels/products/kernel_table.h"
#include "backends/reference/kernels/quantised/kernel_table.h"
#include "backends/reference/kernels/recurrent/kernel_table.h"
#include "backends/reference/kernels/rows/kernel_table.h"
#include "backends/reference/kernels/sampling/kernel_table.h"
#include "backends/reference/kernels/training/kernel_table.h"
#include "backends/reference/kernels/values/kernel_table.h"
#include "backends/reference/reference_device.h"

namespace tessera::backends {

std::span<const KernelEntry> reference_kernel_table() {
  using namespace reference;
  static const std::vector<KernelEntry> table = [] {
    std::vector<KernelEntry> joined;
    for (const auto family :
         {attention_kernels(), classical_kernels(), convolution_kernels(), element_wise_kernels(), movement_kernels(),
          pooling_kernels(), product_kernels(), quantised_kernels(), recurrent_kernels(), row_kernels(),
          sampling_kernels(), training_kernels(), value_kernels()})
      joined.insert(joined.end(), family.begin(), family.end());
    return joined;
  }();
  return table;
}

}  // namespace tessera::backends
