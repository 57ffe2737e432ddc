// The memory of a simulated device: the same pages mapped at two address ranges. The device's addresses, which callers
// get, allow no access, so that a host that dereferences one crashes as it would with a GPU's; the device's queues
// access the pages through the other mapping.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::backends::simulated {

class MirroredMemory {
 public:
  // Reserves addresses for `bytes`; pages take memory of the machine only once they are written. Throws
  // Error(over_budget) if the system has no such range of addresses.
  explicit MirroredMemory(std::int64_t bytes);
  ~MirroredMemory();
  MirroredMemory(const MirroredMemory&) = delete;
  MirroredMemory& operator=(const MirroredMemory&) = delete;

  // The first device address.
  std::byte* device_base() const { return device_; }
  std::int64_t bytes() const { return bytes_; }
  bool contains(const void* address) const { return address >= device_ && address < device_ + bytes_; }
  // The address at which a queue accesses the memory of a device address; any other address is returned unchanged.
  template <typename T>
  T* queue_address(T* address) const {
    if (!contains(address)) return address;
    return reinterpret_cast<T*>(queue_ + (reinterpret_cast<const std::byte*>(address) - device_));
  }
  // Returns the whole pages of a range to the system; they read as zeros afterwards.
  void discard(std::int64_t offset, std::int64_t bytes);

 private:
  std::int64_t bytes_;
  int file_ = -1;
  std::byte* device_ = nullptr;
  std::byte* queue_ = nullptr;
};

}  // namespace tessera::backends::simulated
