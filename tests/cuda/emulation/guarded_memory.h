// Memory of a device whose bounds are watched: buffers of global memory and the shared memory of a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera::emulation {

// Fills memory that nothing has written: not a number in f32, f16, bf16 and both fp8 types.
inline constexpr std::byte kPoison{0xFF};

// `bytes` of memory that end, up to the alignment, at a page which cannot be touched; another such page is in front.
// The bytes between the data and those pages hold a pattern whose change intact() finds, and the address sanitizer
// reports every access to them.
class GuardedMemory {
 public:
  GuardedMemory(std::size_t bytes, std::size_t alignment);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept;
  GuardedMemory& operator=(GuardedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  // Whether an access to `address` hit one of the pages or the bytes around the data.
  bool guards(const void* address) const;
  // Whether nothing was written between the data and the guard pages.
  bool intact() const;

 private:
  std::byte *mapping_ = nullptr, *data_ = nullptr;
  std::size_t mapped_bytes_ = 0, bytes_ = 0;
};

// A buffer of global memory. Its elements are poisoned until they are written.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t count, std::size_t alignment = 16)
      : memory_(count * sizeof(T), alignment), count_(count) {}
  explicit DeviceBuffer(const std::vector<T>& values, std::size_t alignment = 16)
      : DeviceBuffer(values.size(), alignment) {
    for (std::size_t i = 0; i < count_; ++i) data()[i] = values[i];
  }
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::span<T> values() const { return {data(), count_}; }
  bool intact() const { return memory_.intact(); }

 private:
  GuardedMemory memory_;
  std::size_t count_;
};

// The shared memory of one block: objects by their type, then the dynamic part, each with a gap of guard bytes around.
// Addresses in it are offsets below 256 KiB, as PTX's shared state space has them.
class SharedMemory {
 public:
  SharedMemory();

  // Forgets all objects and poisons everything. The dynamic part of `dynamic_bytes` begins at a multiple of 1024.
  void begin_block(std::size_t dynamic_bytes);
  // The object for `key`, made at the first call of a block; null where shared memory is exhausted.
  std::byte* object(const void* key, std::size_t bytes, std::size_t alignment);
  std::byte* dynamic() const { return dynamic_; }
  // Bytes that objects and the dynamic part occupy, without the gaps.
  std::size_t used_bytes() const { return used_bytes_; }

  bool contains(const void* address) const;
  bool guards(const void* address) const { return memory_.guards(address); }
  // Whether [address, address + bytes) lies in one object or in the dynamic part.
  bool holds(const void* address, std::size_t bytes) const;
  std::uint32_t offset_of(const void* address) const;
  std::byte* at(std::uint32_t offset) const;
  // Whether nothing was written between objects.
  bool intact() const;

 private:
  struct Object {
    const void* key;
    std::byte* data;
    std::size_t bytes;
  };
  GuardedMemory memory_;
  std::vector<Object> objects_;
  std::byte *next_ = nullptr, *dynamic_ = nullptr;
  std::size_t dynamic_bytes_ = 0, used_bytes_ = 0;
};

}  // namespace tessera::emulation
