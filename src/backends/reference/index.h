// Checks of indices that are data.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace tessera::backends::reference {

// Converts an index in [-bound, bound) to [0, bound); throws Error(failed) naming both for any other index.
inline std::int64_t normalise_index(std::int64_t index, std::int64_t bound) {
  require(index >= -bound && index < bound, ErrorKind::failed, "index {} is outside [{}, {})", index, -bound, bound);
  return index < 0 ? index + bound : index;
}

}  // namespace tessera::backends::reference
