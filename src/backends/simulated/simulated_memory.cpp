#include "backends/simulated/simulated_memory.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers/units.h"

namespace tessera::backends::simulated {
namespace {

// The size from which freed blocks return their pages to the system: smaller blocks are soon used again.
constexpr std::int64_t kDiscardedBytes = std::int64_t{1} << 20;

}  // namespace

void* SimulatedMemory::allocate(std::int64_t bytes, Stream* stream) {
  Capture::refuse_to_thread("an allocation of device memory");
  machine_.count_allocation();
  MirroredMemory& memory = machine_.memory();
  SimulatedStream* const simulated = stream != nullptr ? &stream_of(machine_, *stream) : nullptr;
  std::unique_lock lock(mutex_);
  if (simulated != nullptr) take_back(simulated);
  std::optional<std::int64_t> offset = blocks_.take(bytes);
  if (!offset && !freed_.empty()) {
    wait_for_freed(simulated, lock);
    offset = blocks_.take(bytes);
  }
  require(offset.has_value(), ErrorKind::over_budget,
          "device '{}' has no place for {}: {} of {} are in use, and the largest free part is {}", machine_.name(),
          base::format_bytes(bytes), base::format_bytes(blocks_.in_use()), base::format_bytes(capacity_bytes()),
          base::format_bytes(blocks_.largest_free()));
  std::byte* const address = memory.device_base() + *offset;
  if (MemoryChecker* const checker = machine_.checker())
    checker->allocated(address, bytes, simulated != nullptr ? simulated->number() : -1);
  return address;
}

void SimulatedMemory::free(void* address, Stream* stream) noexcept {
  if (address == nullptr) return;
  Capture::invalidate_of_thread("a free of device memory");
  const std::int64_t offset = static_cast<std::byte*>(address) - machine_.memory().device_base();
  auto* const simulated = dynamic_cast<SimulatedStream*>(stream);
  if (MemoryChecker* const checker = machine_.checker())
    checker->freed(address, simulated != nullptr ? simulated->number() : -1);
  const std::lock_guard lock(mutex_);
  if (simulated != nullptr) {
    freed_.push_back({offset, simulated->number(), simulated->mark()});
    return;
  }
  give_back(offset);
}

void* SimulatedMemory::allocate_host(std::int64_t bytes) {
  Capture::refuse_to_thread("an allocation of pinned host memory");
  return machine_.pinned().allocate(bytes);
}

void SimulatedMemory::free_host(void* address) noexcept {
  if (address == nullptr) return;
  Capture::invalidate_of_thread("a free of pinned host memory");
  machine_.pinned().free(address);
}

std::int64_t SimulatedMemory::in_use_bytes() const {
  const std::lock_guard lock(mutex_);
  return blocks_.in_use();
}

void SimulatedMemory::take_back(const SimulatedStream* stream) {
  std::erase_if(freed_, [&](const Freed& block) {
    if (block.stream != stream->number()) return false;
    blocks_.give_back(block.offset);
    return true;
  });
}

void SimulatedMemory::wait_for_freed(SimulatedStream* stream, std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<Mark>> marks;
  for (const Freed& block : freed_) marks.push_back(block.mark);
  // With a virtual clock other threads run during the wait, and may need the lock.
  lock.unlock();
  for (const std::shared_ptr<Mark>& mark : marks) {
    mark->wait();
    if (stream != nullptr) {
      stream->wait_in_time(*mark);
    } else {
      machine_.timeline().wait_on_host(mark->time());
      mark->tell_host(machine_);
    }
  }
  lock.lock();
  std::erase_if(freed_, [&](const Freed& block) {
    if (std::ranges::find(marks, block.mark) == marks.end()) return false;
    give_back(block.offset);
    return true;
  });
}

void SimulatedMemory::give_back(std::int64_t offset) {
  const std::int64_t bytes = blocks_.give_back(offset);
  if (bytes >= kDiscardedBytes) machine_.memory().discard(offset, bytes);
}

}  // namespace tessera::backends::simulated
