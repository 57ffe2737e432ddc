#include "driver/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "driver/simulator.h"

namespace tessera::cuda::driver {
namespace {

constexpr std::size_t kPage = 4096;
// Bytes at the begin of each allocation that hold 0xFF, which is not a number in every floating-point type: what
// cuMemCreate gives is undefined.
constexpr std::size_t kPoisonedBytes = std::size_t{64} << 20;

std::byte* pointer(DeviceAddress address) {
  return reinterpret_cast<std::byte*>(address);
}

std::size_t rounded(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

bool multiple(std::uint64_t value) {
  return value % kGranularity == 0;
}

void poison(int file, std::size_t bytes) {
  const std::size_t poisoned = std::min(bytes, kPoisonedBytes);
  void* const memory = ::mmap(nullptr, poisoned, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return;
  std::memset(memory, 0xFF, poisoned);
  ::munmap(memory, poisoned);
}

}  // namespace

void DeviceMemory::reset(int devices, std::size_t bytes_per_device) {
  for (const auto& [address, reservation] : reservations_) ::munmap(reservation.mapped, reservation.mapped_bytes);
  for (const auto& [handle, allocation] : allocations_) ::close(allocation.file);
  reservations_.clear();
  allocations_.clear();
  mappings_.clear();
  used_.assign(static_cast<std::size_t>(devices), 0);
  bytes_per_device_ = bytes_per_device;
  open_ = -1;
}

// "The size and address parameters must be a multiple of the host page size and the alignment must be a power of two or
// zero for default alignment."
DeviceAddress DeviceMemory::reserve(std::size_t bytes, std::size_t alignment) {
  require(bytes > 0 && bytes % kPage == 0 && (alignment & (alignment - 1)) == 0);
  require(bytes < std::size_t{1} << 46 && alignment < std::size_t{1} << 40, kOutOfMemory);
  const std::size_t step = std::max(alignment, kGranularity);
  void* const memory = ::mmap(nullptr, bytes + step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, kOutOfMemory);
  const DeviceAddress address = rounded(reinterpret_cast<std::uintptr_t>(memory), step);
  reservations_[address] = {bytes, static_cast<std::byte*>(memory), bytes + step, false};
  return address;
}

// "The size must match what was given to memAddressReserve and the ptr given must match what was returned from
// memAddressReserve." A range that is still mapped cannot be freed.
void DeviceMemory::free_reservation(DeviceAddress address, std::size_t bytes) {
  const auto found = reservations_.find(address);
  require(found != reservations_.end() && found->second.bytes == bytes);
  const auto mapping = mappings_.lower_bound(address);
  require(mapping == mappings_.end() || mapping->first >= address + bytes);
  ::munmap(found->second.mapped, found->second.mapped_bytes);
  reservations_.erase(found);
}

// "The size of this allocation must be a multiple of the the value given via cuMemGetAllocationGranularity with the
// CU_MEM_ALLOC_GRANULARITY_MINIMUM flag."
AllocationHandle DeviceMemory::create(std::size_t bytes, int device) {
  require(bytes > 0 && multiple(bytes));
  return create_charged(bytes, bytes, device);
}

AllocationHandle DeviceMemory::create_charged(std::size_t bytes, std::size_t charged_bytes, int device) {
  std::size_t& used = used_[static_cast<std::size_t>(device)];
  require(charged_bytes <= bytes_per_device_ - used, kOutOfMemory);
  const int file = ::memfd_create("memory of a simulated CUDA device", MFD_CLOEXEC);
  require(file >= 0, kOutOfMemory);
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    ::close(file);
    throw Failure{kOutOfMemory};
  }
  poison(file, bytes);
  used += charged_bytes;
  allocations_[next_handle_] = {file, bytes, charged_bytes, device};
  return next_handle_++;
}

// "The generic memory handle can be freed when there are still outstanding mappings made with this handle." "The memory
// allocation will be freed when all outstanding mappings to the memory are unmapped and when all outstanding references
// to the handle [...] are also released."
void DeviceMemory::release(AllocationHandle handle) {
  const auto found = allocations_.find(handle);
  require(found != allocations_.end() && !found->second.released);
  found->second.released = true;
  collect(handle);
}

void DeviceMemory::collect(AllocationHandle handle) {
  const auto found = allocations_.find(handle);
  const Allocation& allocation = found->second;
  if (!allocation.released || allocation.mappings > 0) return;
  used_[static_cast<std::size_t>(allocation.device)] -= allocation.charged_bytes;
  ::close(allocation.file);
  allocations_.erase(found);
}

// "This range must be an address reservation previously reserved with cuMemAddressReserve, and offset + size must be
// less than the size of the memory allocation" (equal is accepted, too). "Both ptr, size, and offset must be a
// multiple" of the granularity. "Note: currently [offset] must be zero." "cuMemMap can only create mappings on VA range
// reservations that are not currently mapped." "Please note calling cuMemMap does not make the address accessible".
void DeviceMemory::map(DeviceAddress address, std::size_t bytes, std::size_t offset, AllocationHandle handle) {
  require(bytes > 0 && multiple(address) && multiple(bytes) && offset == 0);
  const auto allocation = allocations_.find(handle);
  require(allocation != allocations_.end() && !allocation->second.released && bytes <= allocation->second.bytes);
  auto reservation = reservations_.upper_bound(address);
  require(reservation != reservations_.begin());
  --reservation;
  const std::size_t begin = address - reservation->first;
  require(begin < reservation->second.bytes && bytes <= reservation->second.bytes - begin);
  const auto next = mappings_.lower_bound(address);
  require(next == mappings_.end() || next->first >= address + bytes);
  require(mapping_at(address) == mappings_.end());
  void* const mapped =
      ::mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, allocation->second.file, 0);
  require(mapped != MAP_FAILED, kOutOfMemory);
  ++allocation->second.mappings;
  mappings_[address] = {bytes, handle, std::vector<int>(used_.size(), 0)};
}

// "The range must be the entire contiguous address range that was mapped to. In other words, cuMemUnmap cannot unmap a
// sub-range of an address range mapped by cuMemCreate / cuMemMap." "When cuMemUnmap returns successfully the address
// range is converted to an address reservation and can be used for a future calls to cuMemMap."
void DeviceMemory::unmap(DeviceAddress address, std::size_t bytes) {
  for (const Mappings::iterator mapping : whole_mappings(address, bytes)) {
    ::mmap(pointer(mapping->first), mapping->second.bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    const AllocationHandle handle = mapping->second.allocation;
    mappings_.erase(mapping);
    --allocations_.at(handle).mappings;
    collect(handle);
  }
}

// "The range must be a fully mapped address range containing all allocations created by cuMemMap / cuMemCreate."
void DeviceMemory::set_access(DeviceAddress address, std::size_t bytes, int device, int flags) {
  for (const Mappings::iterator mapping : whole_mappings(address, bytes)) {
    mapping->second.access[static_cast<std::size_t>(device)] = flags;
    if (open_ == device) protect(*mapping, device);
  }
}

std::vector<DeviceMemory::Mappings::iterator> DeviceMemory::whole_mappings(DeviceAddress address, std::size_t bytes) {
  require(bytes > 0 && bytes <= ~DeviceAddress{0} - address);
  std::vector<Mappings::iterator> found;
  DeviceAddress next = address;
  while (next < address + bytes) {
    const auto mapping = mappings_.find(next);
    require(mapping != mappings_.end() && mapping->second.bytes <= address + bytes - next);
    found.push_back(mapping);
    next += mapping->second.bytes;
  }
  return found;
}

// Memory of cuMemAlloc ends at the page after its last byte: "The allocated memory is suitably aligned for any kind of
// variable. The memory is not cleared."
DeviceAddress DeviceMemory::allocate(std::size_t bytes, int device) {
  require(bytes > 0);
  require(bytes < std::size_t{1} << 46, kOutOfMemory);
  const std::size_t pages = rounded(bytes, kPage);
  const AllocationHandle handle = create_charged(pages, pages, device);
  const DeviceAddress address = reserve(pages, 0);
  reservations_[address].simple = true;
  ::mmap(pointer(address), pages, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, allocations_.at(handle).file, 0);
  allocations_.at(handle).mappings = 1;
  allocations_.at(handle).released = true;
  mappings_[address] = {pages, handle, std::vector<int>(used_.size(), 0)};
  set_access(address, pages, device, kReadsAndWrites);
  return address;
}

void DeviceMemory::free(DeviceAddress address) {
  const auto found = reservations_.find(address);
  require(found != reservations_.end() && found->second.simple);
  const std::size_t bytes = found->second.bytes;
  unmap(address, bytes);
  free_reservation(address, bytes);
}

bool DeviceMemory::is_device_address(DeviceAddress address) const {
  auto reservation = reservations_.upper_bound(address);
  if (reservation == reservations_.begin()) return false;
  --reservation;
  return address - reservation->first < reservation->second.bytes;
}

DeviceMemory::Mappings::const_iterator DeviceMemory::mapping_at(DeviceAddress address) const {
  auto mapping = mappings_.upper_bound(address);
  if (mapping == mappings_.begin()) return mappings_.end();
  --mapping;
  return address - mapping->first < mapping->second.bytes ? mapping : mappings_.end();
}

bool DeviceMemory::accessible(DeviceAddress address, std::size_t bytes, int device, bool writes) const {
  if (bytes > ~DeviceAddress{0} - address) return false;
  const DeviceAddress end = address + bytes;
  while (address < end) {
    const auto mapping = mapping_at(address);
    if (mapping == mappings_.end()) return false;
    const int access = mapping->second.access[static_cast<std::size_t>(device)];
    if (access != kReadsAndWrites && (writes || access == 0)) return false;
    address = mapping->first + mapping->second.bytes;
  }
  return true;
}

void DeviceMemory::open_access(int device) {
  if (device == open_) return;
  open_ = device;
  for (const Mappings::value_type& mapping : mappings_) protect(mapping, device);
}

void DeviceMemory::protect(const Mappings::value_type& mapping, int device) const {
  const int access = device < 0 ? 0 : mapping.second.access[static_cast<std::size_t>(device)];
  const int protection = access == 0 ? PROT_NONE : access == kReadsAndWrites ? PROT_READ | PROT_WRITE : PROT_READ;
  ::mprotect(pointer(mapping.first), mapping.second.bytes, protection);
}

void PinnedMemory::reset() {
  for (const auto& [address, block] : blocks_) {
    if (block.owned) ::munmap(reinterpret_cast<void*>(address), rounded(block.bytes, kPage));
  }
  blocks_.clear();
}

void* PinnedMemory::allocate(std::size_t bytes) {
  void* const memory =
      ::mmap(nullptr, rounded(bytes, kPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  blocks_[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, next_number_++, true};
  return memory;
}

bool PinnedMemory::free(void* address) {
  const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == blocks_.end() || !found->second.owned) return false;
  ::munmap(address, rounded(found->second.bytes, kPage));
  blocks_.erase(found);
  return true;
}

bool PinnedMemory::take(void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const auto next = blocks_.lower_bound(begin);
  const bool meets_next = next != blocks_.end() && next->first < begin + bytes;
  if (meets_next || find(address, 1) != 0) return false;
  blocks_[begin] = {bytes, next_number_++, false};
  return true;
}

bool PinnedMemory::give_back(void* address) {
  const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == blocks_.end() || found->second.owned) return false;
  blocks_.erase(found);
  return true;
}

std::uint64_t PinnedMemory::find(const void* address, std::size_t bytes) const {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  auto found = blocks_.upper_bound(place);
  if (found == blocks_.begin()) return 0;
  --found;
  const std::size_t begin = place - found->first;
  return begin <= found->second.bytes && bytes <= found->second.bytes - begin ? found->second.number : 0;
}

}  // namespace tessera::cuda::driver
