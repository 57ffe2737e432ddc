#include "cost/machine.h"

#include <algorithm>
#include <limits>

#include "cost/profile.h"

namespace tessera::cost {
namespace {

// Two multiply-adds of whole registers per cycle, at this clock rate.
constexpr double kCyclesPerSecond = 3.125e9;
constexpr double kOperationsPerLane = 2 * 2;
constexpr double kBytesPerSecond = 20e9, kSharedBytesPerSecond = 50e9;
// A layer reads weights and one or two values, and writes one, all of which pass through the cache.
constexpr std::int64_t kValuesAtOnce = 4;
// Clouds rent out cores with 2 to 16 MiB of the last-level cache each, and show the guest the whole cache.
constexpr std::int64_t kRentedBytesPerCore = std::int64_t{8} << 20;

int float32_lanes(base::Isa isa) {
  return isa == base::Isa::avx512 ? 16 : isa == base::Isa::avx2 ? 8 : 4;
}

base::CpuInfo usual_cpu() {
  base::CpuInfo info;
  info.isa = base::Isa::avx512;
  info.usable_cores = 2;
  info.caches = {{1, 48 << 10, 1}, {2, 2 << 20, 1}, {3, 16 << 20, 2}};
  return info;
}

}  // namespace

Machine::Machine() : Machine(usual_cpu()) {}

Machine::Machine(const base::CpuInfo& info)
    : operations_per_second(kOperationsPerLane * float32_lanes(info.isa) * kCyclesPerSecond),
      bytes_per_second(kBytesPerSecond),
      shared_bytes_per_second(kSharedBytesPerSecond),
      near_cache_bytes(info.own_cache().bytes / kValuesAtOnce) {
  const base::CpuCache& last = info.caches.back();
  // Cores that this process may not use occupy their share of the cache.
  shared_cache_bytes = last.bytes * std::min(info.usable_cores, last.cores) / last.cores;
  if (info.is_virtual) shared_cache_bytes = std::min(shared_cache_bytes, info.usable_cores * kRentedBytesPerCore);
}

Machine::Machine(const DeviceProfile& device) {
  const double parts = std::max(1, device.multiprocessors);
  operations_per_second = device.peak(Precision::f32, true) / parts;
  bytes_per_second = shared_bytes_per_second = device.bandwidth / parts;
  if (device.caches.empty()) return;
  const Cache &near = device.caches.front(), &shared = device.caches.back();
  shared_cache_bytes = shared.bytes;
  if (shared.bytes_per_second > 0) shared_bytes_per_second = shared.bytes_per_second / parts;
  near_cache_bytes = static_cast<std::int64_t>(static_cast<double>(near.bytes) / parts) / kValuesAtOnce;
}

double Machine::ridge(std::int64_t bytes) const {
  return operations_per_second / (bytes <= shared_cache_bytes ? shared_bytes_per_second : bytes_per_second);
}

double Machine::bytes_from_memory(const ops::Cost& work) const {
  const double ridge_of_memory = ridge(std::numeric_limits<std::int64_t>::max());
  return std::max(work.operations / ridge_of_memory, work.bytes_read + work.bytes_written);
}

}  // namespace tessera::cost
