// Picks the kernel for a node: the first entry in the device's table that accepts it.
#pragma once

#include <string>
#include <vector>

#include "backends/backend.h"

namespace tessera::plan {

struct KernelChoice {
  const backends::KernelEntry* entry = nullptr;
  // Entries that stand before it, each with its reason: "gemm_avx512: element type i32".
  std::vector<std::string> rejected;
};

// Throws Error(unsupported) with all reasons when no kernel accepts the node.
KernelChoice choose_kernel(const backends::Device& device, const ops::NodeView& view);

}  // namespace tessera::plan
