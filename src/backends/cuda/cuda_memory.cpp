#include "backends/cuda/cuda_memory.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/numbers/units.h"

namespace tessera::backends::cuda {
namespace {

// The pool grows by at least this much: mapping takes long.
constexpr std::int64_t kGrowthBytes = std::int64_t{64} << 20;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

driver::AllocationProperties allocation_on(const CudaMachine& machine) {
  driver::AllocationProperties properties{};
  properties.type = driver::kPinnedAllocation;
  properties.location = {driver::kDeviceLocation, machine.device()};
  return properties;
}

}  // namespace

void CudaMemory::reserve() {
  if (base_ != 0) return;
  const driver::AllocationProperties properties = allocation_on(machine_);
  std::size_t granularity = 0;
  machine_.check(machine_.api().cuMemGetAllocationGranularity(&granularity, &properties, driver::kMinimumGranularity),
                 "cuMemGetAllocationGranularity");
  granularity_ = static_cast<std::int64_t>(granularity);
  reserved_bytes_ = rounded_up(capacity_bytes(), granularity_);
  driver::DeviceAddress base = 0;
  machine_.check(machine_.api().cuMemAddressReserve(&base, static_cast<std::size_t>(reserved_bytes_), 0, 0, 0),
                 "cuMemAddressReserve");
  base_ = base;
}

bool CudaMemory::grow(std::int64_t bytes) {
  const std::int64_t room = reserved_bytes_ - blocks_.bytes();
  if (bytes > room) return false;
  const driver::AllocationProperties properties = allocation_on(machine_);
  // A device that has less left than the pool likes to grow by is asked for what is needed alone.
  for (const std::int64_t wanted : {std::max(bytes, kGrowthBytes), bytes}) {
    const std::int64_t size = std::min(rounded_up(wanted, granularity_), room);
    const auto size_of_driver = static_cast<std::size_t>(size);
    driver::AllocationHandle handle = 0;
    const driver::Result created = machine_.api().cuMemCreate(&handle, size_of_driver, &properties, 0);
    if (created == driver::kOutOfMemory) continue;
    machine_.check(created, "cuMemCreate");
    const driver::DeviceAddress address = base_ + static_cast<driver::DeviceAddress>(blocks_.bytes());
    const driver::Result mapped = machine_.api().cuMemMap(address, size_of_driver, 0, handle, 0);
    // The mapping keeps the memory until it goes itself.
    machine_.api().cuMemRelease(handle);
    machine_.check(mapped, "cuMemMap");
    const driver::AccessDescription access{properties.location, driver::kReadsAndWrites};
    const driver::Result allowed = machine_.api().cuMemSetAccess(address, size_of_driver, &access, 1);
    if (allowed != driver::kSuccess) machine_.api().cuMemUnmap(address, size_of_driver);
    machine_.check(allowed, "cuMemSetAccess");
    blocks_.extend(size);
    return true;
  }
  return false;
}

void CudaMemory::take_back_passed() {
  std::erase_if(freed_, [&](const Freed& block) {
    if (block.passed == nullptr || !block.passed->done()) return false;
    blocks_.give_back(block.offset);
    return true;
  });
}

void* CudaMemory::allocate(std::int64_t bytes, Stream* stream) {
  const CudaStream* const ours = stream != nullptr ? &stream_of(machine_, *stream) : nullptr;
  const CurrentContext current(machine_);
  const std::lock_guard lock(mutex_);
  reserve();
  if (ours != nullptr) {
    std::erase_if(freed_, [&](const Freed& block) {
      if (block.stream != ours->number()) return false;
      blocks_.give_back(block.offset);
      return true;
    });
  }
  const std::int64_t size = rounded_up(std::max<std::int64_t>(bytes, 1), kBlockAlignment);
  std::optional<std::int64_t> offset = blocks_.take(bytes);
  if (!offset && !freed_.empty()) {
    take_back_passed();
    offset = blocks_.take(bytes);
  }
  if (!offset && grow(size)) offset = blocks_.take(bytes);
  if (!offset && !freed_.empty()) {
    for (const Freed& block : freed_) {
      if (block.passed != nullptr) block.passed->wait();
    }
    take_back_passed();
    offset = blocks_.take(bytes);
  }
  require(offset.has_value(), ErrorKind::over_budget,
          "device '{}' has no place for {}: {} of {} are in use by this process, and the largest free part is {}",
          machine_.name(), base::format_bytes(bytes), base::format_bytes(blocks_.in_use()),
          base::format_bytes(capacity_bytes()), base::format_bytes(blocks_.largest_free()));
  return reinterpret_cast<void*>(base_ + static_cast<driver::DeviceAddress>(*offset));
}

void CudaMemory::free(void* address, Stream* stream) noexcept {
  if (address == nullptr) return;
  const auto offset = static_cast<std::int64_t>(reinterpret_cast<driver::DeviceAddress>(address) - base_);
  auto* const ours = dynamic_cast<CudaStream*>(stream);
  if (ours == nullptr) {
    const std::lock_guard lock(mutex_);
    blocks_.give_back(offset);
    return;
  }
  std::shared_ptr<CudaEvent> passed;
  try {
    passed = std::make_shared<CudaEvent>(machine_);
    ours->record(*passed);
  } catch (const Error&) {
    // The context is lost, or the stream's capture: the block is kept until the stream itself uses it again.
    passed = nullptr;
  }
  const std::lock_guard lock(mutex_);
  freed_.push_back({offset, ours->number(), std::move(passed)});
}

std::int64_t CudaMemory::in_use_bytes() const {
  const std::lock_guard lock(mutex_);
  return blocks_.in_use();
}

std::int64_t CudaMemory::mapped_bytes() const {
  const std::lock_guard lock(mutex_);
  return blocks_.bytes();
}

bool CudaMemory::contains(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto at = reinterpret_cast<driver::DeviceAddress>(address);
  return base_ != 0 && at >= base_ && at < base_ + static_cast<driver::DeviceAddress>(reserved_bytes_);
}

void* CudaMemory::allocate_host(std::int64_t bytes) {
  const CurrentContext current(machine_);
  void* address = nullptr;
  const driver::Result result = machine_.api().cuMemHostAlloc(
      &address, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)), driver::kPortableHostMemory);
  require(result != driver::kOutOfMemory, ErrorKind::over_budget,
          "the system cannot pin {} of memory for device '{}'; {} are pinned", base::format_bytes(bytes),
          machine_.name(), base::format_bytes(pinned_bytes()));
  machine_.check(result, "cuMemHostAlloc");
  const std::lock_guard lock(mutex_);
  pinned_.emplace(static_cast<const std::byte*>(address), bytes);
  pinned_bytes_ += bytes;
  return address;
}

void CudaMemory::free_host(void* address) noexcept {
  if (address == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pinned_.find(static_cast<const std::byte*>(address));
    if (found == pinned_.end()) return;
    pinned_bytes_ -= found->second;
    pinned_.erase(found);
  }
  machine_.api().cuMemFreeHost(address);
}

bool CudaMemory::is_pinned(const void* address) const {
  const std::lock_guard lock(mutex_);
  auto found = pinned_.upper_bound(static_cast<const std::byte*>(address));
  if (found == pinned_.begin()) return false;
  --found;
  return static_cast<const std::byte*>(address) < found->first + std::max<std::int64_t>(found->second, 1);
}

std::int64_t CudaMemory::pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  return pinned_bytes_;
}

}  // namespace tessera::backends::cuda
