// The DeviceMemory of a simulated device: blocks of device addresses, up to the device's capacity.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "backends/block_list.h"
#include "backends/simulated/simulated_stream.h"

namespace tessera::backends::simulated {

// A block that is freed on a stream can be allocated for that stream at once, because the work that uses it is enqueued
// later. Other streams get such a block only if nothing else is free, and then wait until the stream has passed the
// point of freeing. So addresses and failures do not depend on the timing of threads.
class SimulatedMemory final : public DeviceMemory {
 public:
  explicit SimulatedMemory(SimulatedMachine& machine) : machine_(machine), blocks_(machine.options().memory_bytes) {}

  void* allocate(std::int64_t bytes, Stream* stream) override;
  void free(void* address, Stream* stream) noexcept override;
  std::int64_t capacity_bytes() const override { return machine_.options().memory_bytes; }
  std::int64_t in_use_bytes() const override;
  bool contains(const void* address) const override { return machine_.memory().contains(address); }
  void* allocate_host(std::int64_t bytes) override;
  void free_host(void* address) noexcept override;
  bool is_pinned(const void* address) const override { return machine_.pinned().contains(address, 1); }
  std::int64_t pinned_bytes() const override { return machine_.pinned().bytes(); }

 private:
  struct Freed {
    std::int64_t offset = 0;
    int stream = 0;
    std::shared_ptr<Mark> mark;
  };
  void take_back(const SimulatedStream* stream);
  // Waits, without the lock, for the blocks freed on streams at the time of the call, and frees them.
  void wait_for_freed(SimulatedStream* stream, std::unique_lock<std::mutex>& lock);
  void give_back(std::int64_t offset);

  SimulatedMachine& machine_;
  mutable std::mutex mutex_;
  BlockList blocks_;
  std::vector<Freed> freed_;  // on streams that may still use them
};

}  // namespace tessera::backends::simulated
