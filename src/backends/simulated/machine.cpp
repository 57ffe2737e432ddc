#include "backends/simulated/machine.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tessera::backends::simulated {
namespace {

// Bytes per second in one direction between host and device. A profile lists the link to the host first and counts both
// directions; a profile without a link (a CPU) copies within its memory, which it reads and writes.
double link_bandwidth(const cost::DeviceProfile& profile) {
  return (profile.links.empty() ? profile.bandwidth : profile.links.front().bytes_per_second) / 2;
}

}  // namespace

std::int64_t nanoseconds(double seconds) {
  return std::llround(std::min(seconds, 1e9) * 1e9);
}

SimulatedMachine::SimulatedMachine(Options options)
    : options_(std::move(options)), name_(name_of(options_)), timeline_(clock_, options_.seed) {
  if (options_.checks_memory) checker_.emplace();
}

MirroredMemory& SimulatedMachine::memory() {
  const std::lock_guard lock(mutex_);
  if (!memory_) memory_.emplace(options_.memory_bytes);
  return *memory_;
}

void SimulatedMachine::count_allocation() {
  std::int64_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    count = ++allocations_;
  }
  require(count != options_.faults.failing_allocation, ErrorKind::over_budget,
          "allocation {} on device '{}' fails, as its name asks for", count, name_);
}

void SimulatedMachine::count_launch() {
  std::int64_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    count = ++activity_.launches;
  }
  require(count != options_.faults.failing_launch, ErrorKind::failed,
          "launch {} on device '{}' fails, as its name asks for", count, name_);
}

void SimulatedMachine::count_recording(bool is_update) {
  const std::lock_guard lock(mutex_);
  ++(is_update ? activity_.updates : activity_.instantiations);
}

void SimulatedMachine::count_replay() {
  const std::lock_guard lock(mutex_);
  ++activity_.replays;
}

void SimulatedMachine::count_copy(Engine direction, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const bool up = direction == Engine::to_device;
  ++(up ? activity_.copies_to_device : activity_.copies_to_host);
  (up ? activity_.bytes_to_device : activity_.bytes_to_host) += bytes;
}

DeviceActivity SimulatedMachine::activity() const {
  const std::lock_guard lock(mutex_);
  return activity_;
}

std::int64_t SimulatedMachine::launch_ns() const {
  return nanoseconds(options_.profile.overhead_seconds);
}

TimedOperation SimulatedMachine::copy_between(Engine direction, std::int64_t bytes) const {
  const double seconds = static_cast<double>(bytes) / link_bandwidth(options_.profile);
  return {direction, launch_ns(), nanoseconds(seconds * options_.faults.copy_slowdown)};
}

TimedOperation SimulatedMachine::copy_within(std::int64_t bytes) const {
  return {Engine::compute, launch_ns(), nanoseconds(2 * static_cast<double>(bytes) / options_.profile.bandwidth)};
}

TimedOperation SimulatedMachine::fill(std::int64_t bytes) const {
  return {Engine::compute, launch_ns(), nanoseconds(static_cast<double>(bytes) / options_.profile.bandwidth)};
}

}  // namespace tessera::backends::simulated
