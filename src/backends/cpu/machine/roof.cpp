#include "backends/cpu/machine/roof.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "backends/cpu/machine/simd.h"
#include "base/cpu_info.h"
#include "base/error.h"

namespace tessera::backends::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kPage = 4096, kHugePage = std::int64_t{2} << 20;

// The least seconds per repeat of body(thread, repeats); repeats are increased until a run takes long enough.
double best_seconds(int threads, RoofEffort effort, const auto& body) {
  std::int64_t repeats = 1;
  const auto run = [&] {
    return timed_on(threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t thread = begin; thread < end; ++thread) body(thread, repeats);
    });
  };
  double seconds = run();
  while (seconds < effort.seconds) {
    repeats = seconds < effort.seconds / 10
                  ? repeats * 8
                  : static_cast<std::int64_t>(static_cast<double>(repeats) * 1.2 * effort.seconds / seconds) + 1;
    seconds = run();
  }
  for (int i = 0; i < effort.runs; ++i) seconds = std::min(seconds, run());
  return seconds / static_cast<double>(repeats);
}

}  // namespace

double timed_on(int threads, base::RangeFunction body) {
  const auto start = Clock::now();
  base::ThreadPool::process().parallel_for(threads, 1, threads, body);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Pages::Pages(std::int64_t bytes, bool huge) : bytes_(bytes + kHugePage) {
  base_ = mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(base_ != MAP_FAILED, ErrorKind::over_budget, "cannot map {} bytes", bytes_);
  begin_ =
      reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(base_) + kHugePage - 1) / kHugePage * kHugePage);
  advised_ = madvise(begin_, static_cast<std::size_t>(bytes), huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0;
}

Pages::~Pages() {
  munmap(base_, static_cast<std::size_t>(bytes_));
}

double measure_compute(const ComputeLoop& loop, int threads, RoofEffort effort) {
  const ScopedIsa with(loop.isa);
  constexpr std::int64_t steps = 10'000;
  const double seconds =
      best_seconds(threads, effort, [&](std::int64_t, std::int64_t repeats) { loop.run(repeats * steps); });
  return loop.operations * steps * threads / seconds;
}

std::vector<MemoryLevel> memory_levels(int threads) {
  const base::CpuInfo& info = base::cpu_info();
  const std::int64_t l1 = info.cache(1).bytes, l2 = info.cache(2).bytes, l3 = info.cache(3).bytes;
  return {{"L1", l1, l1 / 2},
          {"L2", l2, l2 / 2},
          {"L3", l3, l3 / 2 / threads},
          {"DRAM", 0, std::max<std::int64_t>(6 * l3, 192 << 20) / threads}};
}

Bandwidth measure_bandwidth(const MemoryLevel& level, const StreamLoop& loop, int threads, RoofEffort effort) {
  const std::int64_t count = level.test_bytes / loop.arrays / 4 / 128 * 128, array_bytes = count * 4;
  const std::int64_t stride =
      (array_bytes + kPage - 1) / kPage * kPage + 256;  // so that arrays use different sets of a cache
  const Pages pages(stride * 3 * threads, true);
  const auto array = [&](std::int64_t thread, int i) {
    return reinterpret_cast<float*>(pages.data() + (thread * 3 + i) * stride);
  };
  timed_on(threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t thread = begin; thread < end; ++thread) {
      for (int i = 0; i < 3; ++i) std::memset(array(thread, i), 0, static_cast<std::size_t>(array_bytes));
    }
  });
  const double seconds = best_seconds(threads, effort, [&](std::int64_t thread, std::int64_t repeats) {
    float sum[16];
    float* to = loop.arrays == 1 ? sum : array(thread, 0);
    for (std::int64_t i = 0; i < repeats; ++i) loop.run(to, array(thread, 1), array(thread, 2), count);
  });
  const double bytes = static_cast<double>(array_bytes * loop.arrays * threads);
  return {bytes / seconds, bytes};
}

}  // namespace tessera::backends::cpu
