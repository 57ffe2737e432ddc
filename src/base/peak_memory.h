#pragma once

#include <cstdint>

namespace tessera::base {

// The most bytes of this process that were resident in memory at once; 0 if the system does not report it.
std::int64_t peak_rss_bytes();

}  // namespace tessera::base
