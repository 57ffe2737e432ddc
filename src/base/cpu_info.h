// What this process may use of the machine: instruction sets, cores and memory.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::base {

enum class Isa { scalar = 0, avx2 = 1, avx512 = 2 };  // each includes the ones before it

struct CpuInfo {
  std::string model_name;    // as in /proc/cpuinfo
  Isa isa = Isa::scalar;     // the best set usable, after TESSERA_ISA=scalar|avx2|avx512|amx lowered it
  bool avx512_vnni = false;  // only when isa is avx512
  bool avx512_bf16 = false;
  bool avx512_vbmi = false;  // permutations of bytes
  bool amx = false;  // tile registers with products of bfloat16 and of bytes, which the system lets this process use;
                     // not where TESSERA_ISA is a lesser set
  int usable_cores = 1;  // min(affinity mask, cgroup CPU quota rounded up), at least 1
};

// Read once, at the first call. Thread-safe. Throws Error(invalid_argument) when TESSERA_ISA is none of these sets.
const CpuInfo& cpu_info();

// Physical memory, or the tightest cgroup limit that this process is in if that is less.
std::int64_t usable_memory_bytes();

// "avx512+vnni+bf16+amx"
std::string isa_name(const CpuInfo& info);

}  // namespace tessera::base
