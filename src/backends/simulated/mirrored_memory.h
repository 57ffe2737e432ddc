// The memory of a simulated device: the same pages at two addresses. The device's addresses are handed out and allow no
// access, so that a host that follows one crashes as it would with a GPU's; the queues of the device reach the pages
// through the other mapping.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::backends::simulated {

class MirroredMemory {
 public:
  // Reserves addresses for `bytes`; pages take memory of the machine once they are written. Throws Error(over_budget)
  // where the system has no such range of addresses.
  explicit MirroredMemory(std::int64_t bytes);
  ~MirroredMemory();
  MirroredMemory(const MirroredMemory&) = delete;
  MirroredMemory& operator=(const MirroredMemory&) = delete;

  // The first device address.
  std::byte* device_base() const { return device_; }
  std::int64_t bytes() const { return bytes_; }
  bool contains(const void* address) const { return address >= device_ && address < device_ + bytes_; }
  // Where a queue reads and writes what a device address names; any other address is returned as it is.
  template <typename T>
  T* queue_address(T* address) const {
    if (!contains(address)) return address;
    return reinterpret_cast<T*>(queue_ + (reinterpret_cast<const std::byte*>(address) - device_));
  }
  // Gives the whole pages of a range back to the system; they read as zeros afterwards.
  void discard(std::int64_t offset, std::int64_t bytes);

 private:
  std::int64_t bytes_;
  int file_ = -1;
  std::byte* device_ = nullptr;
  std::byte* queue_ = nullptr;
};

}  // namespace tessera::backends::simulated
