#include "base/peak_memory.h"

#include <sys/resource.h>

#include <fstream>
#include <string>

namespace tessera::base {

// Not getrusage, which also counts memory of the parent's copy that the process was before it became this program.
std::int64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace tessera::base
