#include "runtime/memory/device_blocks.h"

#include <map>
#include <memory>
#include <mutex>

#include "tessera/error.h"

namespace tessera::runtime {
namespace {

class DeviceSource final : public BlockSource {
 public:
  explicit DeviceSource(backends::DeviceMemory& memory) : memory_(memory), pool_(1e18, 0, this) {}

  BlockPool& pool() { return pool_; }

  std::byte* allocate(std::int64_t bytes) override {
    try {
      return static_cast<std::byte*>(memory_.allocate(bytes));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::over_budget || pool_.idle_bytes() == 0) throw;
    }
    pool_.trim();
    return static_cast<std::byte*>(memory_.allocate(bytes));
  }
  void free(std::byte* data, std::int64_t) noexcept override { memory_.free(data); }

 private:
  backends::DeviceMemory& memory_;
  BlockPool pool_;
};

// Never destroyed: blocks may come back while the process ends.
struct Pools {
  std::mutex mutex;
  std::map<const backends::Device*, std::unique_ptr<DeviceSource>> of_device;

  static Pools& all() {
    static Pools& pools = *new Pools;
    return pools;
  }
};

}  // namespace

BlockPool& device_blocks(const backends::Device& device) {
  Pools& pools = Pools::all();
  const std::lock_guard lock(pools.mutex);
  std::unique_ptr<DeviceSource>& source = pools.of_device[&device];
  if (source == nullptr) source = std::make_unique<DeviceSource>(device.memory());
  return source->pool();
}

void trim_device_blocks() {
  Pools& pools = Pools::all();
  const std::lock_guard lock(pools.mutex);
  for (const auto& [device, source] : pools.of_device) source->pool().trim();
}

std::int64_t end_period_of_device_blocks() {
  Pools& pools = Pools::all();
  const std::lock_guard lock(pools.mutex);
  std::int64_t freed = 0;
  for (const auto& [device, source] : pools.of_device) freed += source->pool().end_period();
  return freed;
}

std::int64_t idle_device_bytes() {
  Pools& pools = Pools::all();
  const std::lock_guard lock(pools.mutex);
  std::int64_t bytes = 0;
  for (const auto& [device, source] : pools.of_device) bytes += source->pool().idle_bytes();
  return bytes;
}

}  // namespace tessera::runtime
