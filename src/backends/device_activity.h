// Counts of the work that a device has done since the process began, for tests and reports.
#pragma once

#include <cstdint>

namespace tessera::backends {

struct DeviceActivity {
  std::int64_t launches = 0;                              // kernels and replays enqueued
  std::int64_t instantiations = 0, updates = 0;           // recordings made, and recordings updated in place
  std::int64_t replays = 0;                               // of recordings
  std::int64_t copies_to_device = 0, copies_to_host = 0;  // over the link, those within replays included
  std::int64_t bytes_to_device = 0, bytes_to_host = 0;    // of these copies

  // The work done since `earlier`.
  DeviceActivity operator-(const DeviceActivity& earlier) const {
    return {launches - earlier.launches,
            instantiations - earlier.instantiations,
            updates - earlier.updates,
            replays - earlier.replays,
            copies_to_device - earlier.copies_to_device,
            copies_to_host - earlier.copies_to_host,
            bytes_to_device - earlier.bytes_to_device,
            bytes_to_host - earlier.bytes_to_host};
  }
};

}  // namespace tessera::backends
