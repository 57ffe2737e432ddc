// The state that the streams, events and memory of one simulated device share.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "backends/device_activity.h"
#include "backends/simulated/memory_checker.h"
#include "backends/simulated/mirrored_memory.h"
#include "backends/simulated/options.h"
#include "backends/simulated/pinned_memory.h"
#include "backends/simulated/timeline.h"
#include "base/threads/clock.h"

namespace tessera::backends::simulated {

// Thread-safe.
class SimulatedMachine {
 public:
  explicit SimulatedMachine(Options options);

  const Options& options() const { return options_; }
  const std::string& name() const { return name_; }
  Timeline& timeline() { return timeline_; }
  // The device's memory; its addresses are reserved at the first call. Throws Error(over_budget).
  MirroredMemory& memory();
  PinnedMemory& pinned() { return pinned_; }
  // Null where the options leave checks out.
  MemoryChecker* checker() { return checker_ ? &*checker_ : nullptr; }
  // The address at which a queue's thread accesses the memory of a device address.
  template <typename T>
  T* queue_address(T* address) {
    return memory().queue_address(address);
  }

  // Count an allocation or a launch; throw Error(over_budget) or Error(failed) if the options say that it fails.
  void count_allocation();
  void count_launch();
  void count_recording(bool is_update);
  void count_replay();
  void count_copy(Engine direction, std::int64_t bytes);
  DeviceActivity activity() const;

  // The durations of operations other than kernels.
  TimedOperation copy_between(Engine direction, std::int64_t bytes) const;
  TimedOperation copy_within(std::int64_t bytes) const;
  TimedOperation fill(std::int64_t bytes) const;
  // Nanoseconds to launch any operation.
  std::int64_t launch_ns() const;

 private:
  const Options options_;
  const std::string name_;
  base::VirtualClock clock_;  // the device's own, unless use_clock() gives it another one
  Timeline timeline_;
  mutable std::mutex mutex_;
  std::optional<MirroredMemory> memory_;
  PinnedMemory pinned_;
  std::optional<MemoryChecker> checker_;
  std::int64_t allocations_ = 0;  // guarded by mutex_, like activity_
  DeviceActivity activity_;
};

std::int64_t nanoseconds(double seconds);

}  // namespace tessera::backends::simulated
