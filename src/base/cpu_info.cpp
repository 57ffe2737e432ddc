#include "base/cpu_info.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/environment.h"

namespace tessera::base {
namespace {

Isa detect_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? Isa::avx512 : avx2 ? Isa::avx2 : Isa::scalar;
#else
  return Isa::scalar;
#endif
}

Isa limit_by_environment(Isa detected) {
  const std::string_view name = isa_by_environment();
  if (name == "scalar") return Isa::scalar;
  if (name == "avx2") return std::min(detected, Isa::avx2);
  return detected;
}

// Whether there are tile registers and the system saves them. Linux must be asked for that once in each process ("Using
// XSTATE features in user space applications").
bool may_use_amx() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr unsigned kBf16 = 1U << 22, kTile = 1U << 24, kInt8 = 1U << 25, kAll = kBf16 | kTile | kInt8;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kAll) != kAll) return false;
  constexpr long kAskForState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h
  return syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
#else
  return false;
#endif
}

int cores_by_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// The CPU quota of one cgroup v2 folder in cores, or infinity if there is none.
double quota_of(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return INFINITY;
  return std::strtod(quota.c_str(), nullptr) / period;
}

// The folders of this process's cgroup (v2) and of all that contain it; the tightest of their limits applies.
std::vector<std::string> cgroup_folders() {
  std::vector<std::string> folders{"/sys/fs/cgroup"};
  std::ifstream self("/proc/self/cgroup");
  for (std::string line; std::getline(self, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string path = line.substr(3); !path.empty() && path != "/"; path.resize(path.rfind('/')))
      folders.push_back("/sys/fs/cgroup" + path);
  }
  return folders;
}

double cores_by_quota() {
  double cores = INFINITY;
  for (const std::string& folder : cgroup_folders()) cores = std::min(cores, quota_of(folder));
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (v1_quota >> quota && v1_period >> period && quota > 0 && period > 0) cores = std::min(cores, quota / period);
  return cores;
}

std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

bool has_hypervisor() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx >> 31) != 0;
#else
  return false;
#endif
}

// The number of processors in a list as the system writes it ("0-3,8" is 5), or 0 if the text is no such list.
int count_of_list(const std::filesystem::path& path) {
  std::ifstream file(path);
  int count = 0;
  for (std::string range; std::getline(file, range, ',');) {
    char* end = nullptr;
    const long first = std::strtol(range.c_str(), &end, 10);
    if (end == range.c_str()) return 0;
    const long last = *end == '-' ? std::strtol(end + 1, nullptr, 10) : first;
    if (last < first) return 0;
    count += static_cast<int>(last - first) + 1;
  }
  return count;
}

CpuInfo read_cpu_info() {
  CpuInfo info;
  info.model_name = model_name();
  info.isa = limit_by_environment(detect_isa());
#if defined(__x86_64__)
  info.avx512_vnni = info.isa == Isa::avx512 && __builtin_cpu_supports("avx512vnni");
  info.avx512_bf16 = info.isa == Isa::avx512 && __builtin_cpu_supports("avx512bf16");
  info.avx512_vbmi = info.isa == Isa::avx512 && __builtin_cpu_supports("avx512vbmi");
  info.amx = info.avx512_vnni && info.avx512_bf16 && isa_by_environment() != "avx512" && may_use_amx();
#endif
  const double quota = cores_by_quota();
  const int affinity = cores_by_affinity();
  info.usable_cores = std::isfinite(quota) ? std::clamp(static_cast<int>(std::ceil(quota)), 1, affinity) : affinity;
  info.is_virtual = has_hypervisor();
  if (std::vector<CpuCache> caches = read_caches("/sys/devices/system/cpu/cpu0"); !caches.empty())
    info.caches = std::move(caches);
  return info;
}

}  // namespace

const CpuCache& CpuInfo::own_cache() const {
  // A virtual machine of one core sees the third-level cache as its own, although the host's other machines use it as
  // well.
  const auto shared =
      std::ranges::find_if(caches, [](const CpuCache& cache) { return cache.cores > 1 || cache.level > 2; });
  return shared == caches.begin() ? *shared : *(shared - 1);
}

const CpuCache& CpuInfo::cache(int level) const {
  const auto found = std::ranges::find(caches, level, &CpuCache::level);
  return found == caches.end() ? caches.back() : *found;
}

std::vector<CpuCache> read_caches(const std::filesystem::path& cpu_folder) {
  const int threads_of_core = std::max(1, count_of_list(cpu_folder / "topology/thread_siblings_list"));
  std::vector<CpuCache> caches;
  for (int i = 0;; ++i) {
    const std::filesystem::path folder = cpu_folder / fmt::format("cache/index{}", i);
    CpuCache cache;
    std::string type;
    std::int64_t kilobytes = 0;  // "48K"
    if (!(std::ifstream(folder / "level") >> cache.level)) break;
    std::ifstream(folder / "type") >> type;
    std::ifstream(folder / "size") >> kilobytes;
    if (type == "Instruction" || kilobytes <= 0) continue;
    cache.bytes = kilobytes << 10;
    cache.cores = std::max(1, count_of_list(folder / "shared_cpu_list") / threads_of_core);
    caches.push_back(cache);
  }
  std::ranges::sort(caches, {}, &CpuCache::level);
  return caches;
}

const CpuInfo& cpu_info() {
  static const CpuInfo info = read_cpu_info();
  return info;
}

std::int64_t usable_memory_bytes() {
  std::int64_t bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  for (const std::string& folder : cgroup_folders()) {
    std::ifstream file(folder + "/memory.max");
    std::int64_t limit = 0;  // "max" does not read as a number
    if (file >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

std::string isa_name(const CpuInfo& info) {
  std::string name = info.isa == Isa::avx512 ? "avx512" : info.isa == Isa::avx2 ? "avx2" : "scalar";
  if (info.avx512_vnni) name += "+vnni";
  if (info.avx512_bf16) name += "+bf16";
  if (info.amx) name += "+amx";
  return name;
}

}  // namespace tessera::base
