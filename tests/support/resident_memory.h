// Memory of this process that is in RAM.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace tessera::test {

inline std::int64_t resident_bytes() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace tessera::test
