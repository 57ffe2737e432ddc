// Memory of the simulated devices, and pinned memory of the host.
//
// A device address is an address of this process that allows no access: a host that dereferences it crashes, as with a
// GPU. While operations of a device execute, what the device may access is opened (open_access), because kernels of the
// emulation dereference device addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "backends/cuda/driver/driver_types.h"

namespace tessera::cuda::driver {

inline constexpr std::size_t kGranularity = std::size_t{2} << 20;

class DeviceMemory {
 public:
  DeviceMemory() = default;
  ~DeviceMemory() { reset(0, 0); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void reset(int devices, std::size_t bytes_per_device);

  // Virtual memory management. All throw Failure; the rules stand in memory.cpp.
  DeviceAddress reserve(std::size_t bytes, std::size_t alignment);
  void free_reservation(DeviceAddress address, std::size_t bytes);
  AllocationHandle create(std::size_t bytes, int device);
  void release(AllocationHandle handle);
  void map(DeviceAddress address, std::size_t bytes, std::size_t offset, AllocationHandle handle);
  void unmap(DeviceAddress address, std::size_t bytes);
  void set_access(DeviceAddress address, std::size_t bytes, int device, int flags);

  // cuMemAlloc and cuMemFree: the three steps in one.
  DeviceAddress allocate(std::size_t bytes, int device);
  void free(DeviceAddress address);

  std::size_t free_bytes(int device) const { return bytes_per_device_ - used_[static_cast<std::size_t>(device)]; }
  std::size_t bytes_per_device() const { return bytes_per_device_; }

  // Whether the address belongs to a reservation: then it is a device's, not the host's.
  bool is_device_address(DeviceAddress address) const;
  // Whether the device may read (and write) every byte of the range.
  bool accessible(DeviceAddress address, std::size_t bytes, int device, bool writes) const;

  // Opens what the device may access to this process; -1 closes everything.
  void open_access(int device);

  std::size_t reservations() const { return reservations_.size(); }
  std::size_t mappings() const { return mappings_.size(); }
  std::size_t allocations() const { return allocations_.size(); }

 private:
  struct Reservation {
    std::size_t bytes;
    std::byte* mapped;  // with what the alignment costs
    std::size_t mapped_bytes;
    bool simple;  // by allocate
  };
  struct Allocation {
    int file;
    std::size_t bytes;
    std::size_t charged_bytes;
    int device;
    bool released = false;
    int mappings = 0;
  };
  struct Mapping {
    std::size_t bytes;
    AllocationHandle allocation;
    std::vector<int> access;  // by device: 0 none, 1 reads, 3 reads and writes
  };
  using Mappings = std::map<DeviceAddress, Mapping>;

  AllocationHandle create_charged(std::size_t bytes, std::size_t charged_bytes, int device);
  void collect(AllocationHandle handle);
  Mappings::const_iterator mapping_at(DeviceAddress address) const;
  // The mappings that make up exactly this range.
  std::vector<Mappings::iterator> whole_mappings(DeviceAddress address, std::size_t bytes);
  void protect(const Mappings::value_type& mapping, int device) const;

  std::size_t bytes_per_device_ = 0;
  std::vector<std::size_t> used_;
  std::map<DeviceAddress, Reservation> reservations_;
  std::map<AllocationHandle, Allocation> allocations_;
  Mappings mappings_;
  AllocationHandle next_handle_ = 1;
  int open_ = -1;
};

// Blocks of page-locked host memory. A block's number tells it from a later one at the same address.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  ~PinnedMemory() { reset(); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  void reset();
  void* allocate(std::size_t bytes);  // null where the host has none
  bool free(void* address);
  // Takes memory of the caller as page-locked, or gives it back. False where a block is there already, or is not there.
  bool take(void* address, std::size_t bytes);
  bool give_back(void* address);
  // The number of the block that holds the range; 0 where none does.
  std::uint64_t find(const void* address, std::size_t bytes) const;
  std::size_t blocks() const { return blocks_.size(); }

 private:
  struct Block {
    std::size_t bytes;
    std::uint64_t number;
    bool owned;  // by allocate
  };
  std::map<std::uintptr_t, Block> blocks_;
  std::uint64_t next_number_ = 1;
};

}  // namespace tessera::cuda::driver
