#include "backends/cpu/kernel_table.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> kernel_table() {
  return {};
}

}  // namespace tessera::backends::cpu
