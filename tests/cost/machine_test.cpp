#include "cost/machine.h"

#include <gtest/gtest.h>

#include "cost/profile.h"

namespace tessera::cost::machine_test {
namespace {

base::CpuInfo cpu_with(base::Isa isa, int cores, std::vector<base::CpuCache> caches) {
  base::CpuInfo info;
  info.isa = isa;
  info.usable_cores = cores;
  info.caches = std::move(caches);
  return info;
}

TEST(Machine, TakesCachesFromTheCpu) {
  const Machine machine(cpu_with(base::Isa::avx2, 8, {{1, 32 << 10, 1}, {2, 1 << 20, 1}, {3, 32 << 20, 8}}));
  EXPECT_EQ(machine.near_cache_bytes, 256 << 10);  // of four values that pass through the second level
  EXPECT_EQ(machine.shared_cache_bytes, 32 << 20);
}

TEST(Machine, CountsOnItsCoresPartOfASharedCache) {
  base::CpuInfo info = cpu_with(base::Isa::avx512, 2, {{1, 48 << 10, 1}, {2, 2 << 20, 1}, {3, 256 << 20, 32}});
  EXPECT_EQ(Machine(info).shared_cache_bytes, 16 << 20);
  info.caches[2].cores = 2;  // as a hypervisor tells it
  EXPECT_EQ(Machine(info).shared_cache_bytes, 256 << 20);
  info.is_virtual = true;
  EXPECT_EQ(Machine(info).shared_cache_bytes, 16 << 20);
}

TEST(Machine, WeighsMovingAgainstComputing) {
  const Machine machine(cpu_with(base::Isa::avx512, 1, {{2, 2 << 20, 1}, {3, 16 << 20, 1}}));
  EXPECT_DOUBLE_EQ(machine.ridge(16 << 20), 4);
  EXPECT_DOUBLE_EQ(machine.ridge((16 << 20) + 1), 10);  // from memory
  EXPECT_DOUBLE_EQ(machine.bytes_from_memory({.operations = 1000, .bytes_read = 60, .bytes_written = 30}), 100);
  EXPECT_DOUBLE_EQ(machine.bytes_from_memory({.operations = 1000, .bytes_read = 80, .bytes_written = 30}), 110);
  // Fewer lanes: computing takes longer.
  const Machine narrow(cpu_with(base::Isa::avx2, 1, {{2, 2 << 20, 1}, {3, 16 << 20, 1}}));
  EXPECT_DOUBLE_EQ(narrow.ridge(16 << 20), 2);
}

TEST(Machine, TakesOneMultiprocessorOfADevice) {
  const DeviceProfile& h100 = *find_built_in_profile("h100-sxm");
  const Machine machine(h100);
  EXPECT_DOUBLE_EQ(machine.operations_per_second * 132, h100.peak(Precision::f32, true));
  EXPECT_DOUBLE_EQ(machine.bytes_per_second * 132, h100.bandwidth);
  EXPECT_EQ(machine.shared_cache_bytes, 51200 * 1024);
  EXPECT_EQ(machine.near_cache_bytes, 33792 * 1024 / 132 / 4);
}

}  // namespace
}  // namespace tessera::cost::machine_test
