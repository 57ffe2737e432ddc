// Blocks of a device's memory that are used again, as those of the host are (memory.h).
#pragma once

#include <cstdint>

#include "backends/backend.h"
#include "runtime/memory/memory.h"

namespace tessera::runtime {

// A device with memory of its own, and the account that its memory is charged to.
struct DeviceSpace {
  const backends::Device* device = nullptr;
  std::shared_ptr<MemoryAccount> account;
};

// The pool of a device that is no host: all sessions share it. A block goes back to it when nothing enqueued uses it
// any more. Where the device has no memory left, idle blocks are given back to it first.
BlockPool& device_blocks(const backends::Device& device);

// A tensor in a block of its own of the device's memory, charged for as long as it lives. Nothing enqueued may use it
// when its last owner lets go. Throws Error(over_budget).
Tensor allocate_on(const DeviceSpace& space, Purpose purpose, DType type, Shape shape);

// The most pinned host memory that a device's staging takes, for all sessions together: pinned pages cannot be swapped
// out, and no more than a few copies are under way at once.
inline constexpr std::int64_t kMostStagingBytes = std::int64_t{64} << 20;
// A block of pinned host memory of the device's, charged to the account as staging until it is let go; null where
// kMostStagingBytes or the account's limit leave none. `preferred`: that block if it is idle and large enough.
std::shared_ptr<std::byte> take_staging(const backends::Device& device, const std::shared_ptr<MemoryAccount>& account,
                                        std::int64_t bytes, const std::byte* preferred = nullptr);

// Apply BlockPool's functions of these names to the pools of all devices, those of their pinned memory included.
void trim_device_blocks();
std::int64_t end_period_of_device_blocks();
std::int64_t idle_device_bytes();

}  // namespace tessera::runtime
