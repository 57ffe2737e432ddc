// What this process may use of the machine: instruction sets, cores and memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera::base {

enum class Isa { scalar = 0, avx2 = 1, avx512 = 2 };  // each includes the ones before it

// A cache for data (or for data and instructions), as often as the machine has it.
struct CpuCache {
  int level = 0;
  std::int64_t bytes = 0;  // of one of them
  int cores = 1;           // that share one; threads of one core count once
};

struct CpuInfo {
  std::string model_name;    // as in /proc/cpuinfo
  Isa isa = Isa::scalar;     // the best set usable, after TESSERA_ISA=scalar|avx2|avx512|amx lowered it
  bool avx512_vnni = false;  // only when isa is avx512
  bool avx512_bf16 = false;
  bool avx512_vbmi = false;  // permutations of bytes
  bool amx = false;  // tile registers with products of bfloat16 and of bytes, which the system lets this process use;
                     // not where TESSERA_ISA is a lesser set
  int usable_cores = 1;                           // min(affinity mask, cgroup CPU quota rounded up), at least 1
  std::vector<CpuCache> caches = usual_caches();  // of the first core, nearest first; never empty
  // Whether a hypervisor runs this system. It tells the size of the host's last cache, not the part of it that this
  // machine may count on.
  bool is_virtual = false;

  // The caches of processors since 2020, at the least; what is taken where the system says nothing.
  static std::vector<CpuCache> usual_caches() { return {{1, 32 << 10, 1}, {2, 1 << 20, 1}, {3, 32 << 20, 8}}; }
  // The largest cache that a core has for itself; of the nearest where all are shared.
  const CpuCache& own_cache() const;
  // The cache of that level, or the last one where there is none.
  const CpuCache& cache(int level) const;
};

// Read once, at the first call. Thread-safe. Throws Error(invalid_argument) when TESSERA_ISA is none of these sets.
const CpuInfo& cpu_info();

// What the system's folder of the first core (/sys/devices/system/cpu/cpu0) tells of its caches for data, nearest
// first; nothing where it tells nothing.
std::vector<CpuCache> read_caches(const std::filesystem::path& cpu_folder);

// Physical memory, or the tightest cgroup limit that this process is in if that is less.
std::int64_t usable_memory_bytes();

// "avx512+vnni+bf16+amx"
std::string isa_name(const CpuInfo& info);

}  // namespace tessera::base
