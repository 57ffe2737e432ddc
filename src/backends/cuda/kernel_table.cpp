#include "backends/cuda/kernel_table.h"

#include <vector>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/element_wise/element_wise.h"
#include "backends/cuda/element_wise/typed.h"
#include "backends/cuda/movement/gather.h"
#include "backends/cuda/movement/movement.h"
#include "backends/cuda/movement/pad.h"
#include "backends/cuda/movement/resize.h"
#include "backends/cuda/products/product.h"
#include "backends/cuda/quantisation/quantisation.h"
#include "backends/cuda/recurrent/recurrent.h"
#include "backends/cuda/reductions/reduction.h"
#include "backends/cuda/rows/rows.h"
#include "backends/cuda/rows/top_k.h"
#include "backends/cuda/windows/windows.h"

namespace tessera::backends::cuda {

std::span<const KernelEntry> kernel_table() {
  static const std::vector<KernelEntry> table = [] {
    std::vector<KernelEntry> entries;
    for (const std::span<const KernelEntry> family :
         {attention_kernel_table(), recurrent_kernel_table(), product_kernel_table(), windows_kernel_table(),
          rows_kernel_table(), movement_kernel_table(), element_wise_kernel_table(), typed_kernel_table(),
          gather_kernel_table(), pad_kernel_table(), resize_kernel_table(), reduction_kernel_table(),
          top_k_kernel_table(), quantisation_kernel_table()})
      entries.insert(entries.end(), family.begin(), family.end());
    return entries;
  }();
  return table;
}

}  // namespace tessera::backends::cuda
