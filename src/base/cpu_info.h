// The part of the machine that this process may use: instruction sets, cores and memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera::base {

enum class Isa { scalar = 0, avx2 = 1, avx512 = 2 };  // each includes the ones before it

// A kind of cache for data (or for data and instructions) that the machine has one or more of.
struct CpuCache {
  int level = 0;
  std::int64_t bytes = 0;  // of one such cache
  int cores = 1;           // number of cores that share one; the threads of a core count once
};

struct CpuInfo {
  std::string model_name;    // as in /proc/cpuinfo
  Isa isa = Isa::scalar;     // the best usable set, after TESSERA_ISA=scalar|avx2|avx512|amx lowered it
  bool avx512_vnni = false;  // only when isa is avx512
  bool avx512_bf16 = false;
  bool avx512_vbmi = false;  // byte permutations
  bool amx = false;          // tile registers (AMX), if the system lets this process use them and TESSERA_ISA allows it
  int usable_cores = 1;      // min(affinity mask, cgroup CPU quota rounded up), at least 1
  std::vector<CpuCache> caches = usual_caches();  // of the first core, nearest first; never empty
  // Whether a hypervisor runs this system. The reported last-level cache is then the host's, of which this machine may
  // get only a part.
  bool is_virtual = false;

  // Assumed where the system does not report its caches: the least that processors since 2020 have.
  static std::vector<CpuCache> usual_caches() { return {{1, 32 << 10, 1}, {2, 1 << 20, 1}, {3, 32 << 20, 8}}; }
  // The largest cache that a core does not share, or the nearest cache where all are shared.
  const CpuCache& own_cache() const;
  // The cache of that level, or the last-level cache if there is none.
  const CpuCache& cache(int level) const;
};

// Read once, at the first call. Thread-safe. Throws Error(invalid_argument) if TESSERA_ISA names none of these sets.
const CpuInfo& cpu_info();

// The data caches described in the system's folder of the first core (/sys/devices/system/cpu/cpu0), nearest first;
// empty if nothing is described there.
std::vector<CpuCache> read_caches(const std::filesystem::path& cpu_folder);

// Physical memory, or the tightest memory limit among this process's cgroups if that is less.
std::int64_t usable_memory_bytes();

// "avx512+vnni+bf16+amx"
std::string isa_name(const CpuInfo& info);

}  // namespace tessera::base
