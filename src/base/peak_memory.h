#pragma once

#include <cstdint>

namespace tessera::base {

// The most bytes of this process that were in memory at once; 0 where the system does not tell.
std::int64_t peak_rss_bytes();

}  // namespace tessera::base
