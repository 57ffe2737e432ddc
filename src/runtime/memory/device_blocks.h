// Blocks of a device's memory that are used again, as those of the host are (memory.h).
#pragma once

#include <cstdint>

#include "backends/backend.h"
#include "runtime/memory/memory.h"

namespace tessera::runtime {

// The pool of a device that is no host: all sessions share it. A block goes back to it when nothing enqueued uses it
// any more. Where the device has no memory left, idle blocks are given back to it first.
BlockPool& device_blocks(const backends::Device& device);

// Apply BlockPool's functions of these names to the pools of all devices.
void trim_device_blocks();
std::int64_t end_period_of_device_blocks();
std::int64_t idle_device_bytes();

}  // namespace tessera::runtime
