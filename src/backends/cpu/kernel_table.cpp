#include "backends/cpu/kernel_table.h"

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/simd.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> kernel_table() {
  initialise_simd();
  return {};
}

}  // namespace tessera::backends::cpu
