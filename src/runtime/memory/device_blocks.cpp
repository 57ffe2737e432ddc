#include "runtime/memory/device_blocks.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/numbers/units.h"

namespace tessera::runtime {
namespace {

// Memory of a device, or pinned host memory for its copies, in blocks that are used again. Where there is no more, idle
// blocks are given back first.
class DeviceSource final : public BlockSource {
 public:
  DeviceSource(backends::DeviceMemory& memory, bool is_pinned)
      : memory_(memory), is_pinned_(is_pinned), pool_(1e18, 0, this) {}

  BlockPool& pool() { return pool_; }

  std::byte* allocate(std::int64_t bytes) override {
    try {
      return take(bytes);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::over_budget || pool_.idle_bytes() == 0) throw;
    }
    pool_.trim();
    return take(bytes);
  }
  void free(std::byte* data, std::int64_t bytes) noexcept override {
    if (!is_pinned_) return memory_.free(data);
    memory_.free_host(data);
    pinned_bytes_ -= bytes;
  }

 private:
  std::byte* take(std::int64_t bytes) {
    if (!is_pinned_) return static_cast<std::byte*>(memory_.allocate(bytes));
    if (pinned_bytes_.fetch_add(bytes) > kMostStagingBytes - bytes) {
      pinned_bytes_ -= bytes;
      fail(ErrorKind::over_budget, "copies may take no more than {} of pinned memory",
           base::format_bytes(kMostStagingBytes));
    }
    try {
      return static_cast<std::byte*>(memory_.allocate_host(bytes));
    } catch (...) {
      pinned_bytes_ -= bytes;
      throw;
    }
  }

  backends::DeviceMemory& memory_;
  const bool is_pinned_;
  std::atomic<std::int64_t> pinned_bytes_{0};
  BlockPool pool_;
};

// Never destroyed: blocks may come back while the process ends.
struct Pools {
  using Key = std::pair<const backends::Device*, bool>;  // and whether it is pinned host memory
  std::mutex mutex;
  std::map<Key, std::unique_ptr<DeviceSource>> sources;

  static Pools& all() {
    static Pools& pools = *new Pools;
    return pools;
  }

  DeviceSource& source(const backends::Device& device, bool is_pinned) {
    const std::lock_guard lock(mutex);
    std::unique_ptr<DeviceSource>& source = sources[{&device, is_pinned}];
    if (source == nullptr) source = std::make_unique<DeviceSource>(device.memory(), is_pinned);
    return *source;
  }
};

}  // namespace

BlockPool& device_blocks(const backends::Device& device) {
  return Pools::all().source(device, false).pool();
}

std::shared_ptr<std::byte> take_staging(const backends::Device& device, const std::shared_ptr<MemoryAccount>& account,
                                        std::int64_t bytes, const std::byte* preferred) {
  try {
    return Pools::all().source(device, true).pool().take(bytes, account, Purpose::staging, preferred);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::over_budget) throw;
    return nullptr;
  }
}

Tensor allocate_on(const DeviceSpace& space, Purpose purpose, DType type, Shape shape) {
  struct Block {
    DeviceSource& source;
    MemoryCharge charge;
    const std::int64_t bytes;
    std::byte* const data;
    Block(DeviceSource& from, MemoryCharge charged, std::int64_t size)
        : source(from), charge(std::move(charged)), bytes(size), data(from.allocate(size)) {}
    ~Block() { source.free(data, bytes); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
  };
  const std::int64_t bytes = byte_count(type, shape);
  const auto block = std::make_shared<Block>(Pools::all().source(*space.device, false),
                                             MemoryCharge(space.account, purpose, bytes), bytes);
  return Tensor(type, std::move(shape), block->data, block);
}

void trim_device_blocks() {
  Pools& pools = Pools::all();
  const std::lock_guard lock(pools.mutex);
  for (const auto& [key, source] : pools.sources) source->pool().trim();
}

std::int64_t end_period_of_device_blocks() {
  Pools& pools = Pools::all();
  const std::lock_guard lock(pools.mutex);
  std::int64_t freed = 0;
  for (const auto& [key, source] : pools.sources) freed += source->pool().end_period();
  return freed;
}

std::int64_t idle_device_bytes() {
  Pools& pools = Pools::all();
  const std::lock_guard lock(pools.mutex);
  std::int64_t bytes = 0;
  for (const auto& [key, source] : pools.sources) bytes += source->pool().idle_bytes();
  return bytes;
}

}  // namespace tessera::runtime
