// An index outside its axis, which a kernel reports to the host.
#pragma once

#include <cstdint>

namespace tessera::cuda {

// Stands in pinned host memory. The first kernel to find an index outside [-size, size) sets it; the host reads it
// after it has waited for the stream, and clears it.
struct IndexFault {
  int is_set;
  std::int64_t index, size;
};

}  // namespace tessera::cuda
