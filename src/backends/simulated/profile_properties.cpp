#include "backends/simulated/profile_properties.h"

#include <algorithm>

#include "backends/block_list.h"
#include "base/error.h"

namespace tessera::backends::simulated {
namespace {

// FNV-1a of the device's name: equal options are the same device in each process.
std::string uuid_of(const Options& options) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char character : name_of(options)) hash = (hash ^ static_cast<std::uint8_t>(character)) * 0x100000001B3;
  return fmt::format("SIM-{:016x}", hash);
}

}  // namespace

DeviceProperties properties_of(const Options& options) {
  const cost::DeviceProfile& profile = options.profile;
  const bool is_gpu = profile.kind == cost::DeviceKind::gpu;
  DeviceProperties properties;
  properties.ordinal = static_cast<int>(std::min<std::int64_t>(options.number, INT32_MAX));
  properties.product = profile.title;
  properties.uuid = uuid_of(options);
  properties.memory_bytes = options.memory_bytes;
  properties.multiprocessors = profile.multiprocessors;
  properties.warp_size = is_gpu ? 32 : 1;
  const auto l2 = std::ranges::find(profile.caches, "L2", &cost::Cache::name);
  properties.l2_bytes = l2 != profile.caches.end() ? l2->bytes : 0;
  properties.copy_engines = 2;  // one in each direction (timeline.h)
  properties.streams = static_cast<int>(options.streams);
  properties.allocation_alignment_bytes = kBlockAlignment;
  properties.vector_alignment_bytes = is_gpu ? 16 : 1;
  const cost::BlockLimits& limits = profile.block_limits;
  properties.compute_capability = {limits.capability_major, limits.capability_minor};
  if (limits.capability_major > 0)
    properties.instruction_set = fmt::format("sm_{}{}", limits.capability_major, limits.capability_minor);
  properties.shared_memory_per_block_bytes = limits.shared_memory_per_block;
  properties.shared_memory_per_multiprocessor_bytes = limits.shared_memory_per_multiprocessor;
  properties.registers_per_block = properties.registers_per_multiprocessor = limits.registers_per_multiprocessor;
  properties.max_threads_per_block = limits.threads_per_block;
  const auto has = [&](cost::Precision precision) { return profile.peak(precision, true) > 0; };
  properties.native_products = {.f64 = limits.multiplies_f64,
                                .f32 = has(cost::Precision::f32),
                                .tf32 = has(cost::Precision::tf32),
                                .f16 = has(cost::Precision::f16),
                                .bf16 = has(cost::Precision::bf16),
                                .f8 = limits.multiplies_f8,
                                .int8 = has(cost::Precision::int8),
                                .int4 = limits.multiplies_int4};
  properties.profile = &profile;
  return properties;
}

}  // namespace tessera::backends::simulated
