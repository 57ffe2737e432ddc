#include "emulation/guarded_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

#include "emulation/sanitizers.h"

namespace tessera::emulation {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSharedBytes = 256 * 1024;
constexpr std::size_t kGap = 64;            // bytes between two objects of shared memory
constexpr std::size_t kFirstOffset = 1024;  // offset 0 stays free, as that of a null pointer

bool is_poison(const std::byte* begin, const std::byte* end) {
  sanitizers::unpoison(const_cast<std::byte*>(begin), static_cast<std::size_t>(end - begin));
  const bool same = std::all_of(begin, end, [](std::byte value) { return value == kPoison; });
  sanitizers::poison(const_cast<std::byte*>(begin), static_cast<std::size_t>(end - begin));
  return same;
}

}  // namespace

GuardedMemory::GuardedMemory(std::size_t bytes, std::size_t alignment) : bytes_(bytes) {
  const std::size_t inner = std::max(kPage, (bytes + alignment + kPage - 1) / kPage * kPage);
  mapped_bytes_ = inner + 2 * kPage;
  void* memory = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(memory);
  std::byte *begin = mapping_ + kPage, *end = begin + inner;
  std::fill(begin, end, kPoison);
  mprotect(mapping_, kPage, PROT_NONE);
  mprotect(end, kPage, PROT_NONE);
  data_ = end - bytes;
  data_ -= reinterpret_cast<std::uintptr_t>(data_) % alignment;
  sanitizers::poison(begin, static_cast<std::size_t>(data_ - begin));
  sanitizers::poison(data_ + bytes, static_cast<std::size_t>(end - (data_ + bytes)));
}

GuardedMemory::~GuardedMemory() {
  if (mapping_ == nullptr) return;
  sanitizers::unpoison(mapping_, mapped_bytes_);
  munmap(mapping_, mapped_bytes_);
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      mapped_bytes_(other.mapped_bytes_),
      bytes_(other.bytes_) {}

GuardedMemory& GuardedMemory::operator=(GuardedMemory&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(data_, other.data_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

bool GuardedMemory::guards(const void* address) const {
  const auto* place = static_cast<const std::byte*>(address);
  const bool inside = place >= mapping_ && place < mapping_ + mapped_bytes_;
  return inside && (place < data_ || place >= data_ + bytes_);
}

bool GuardedMemory::intact() const {
  return is_poison(mapping_ + kPage, data_) && is_poison(data_ + bytes_, mapping_ + mapped_bytes_ - kPage);
}

SharedMemory::SharedMemory() : memory_(kSharedBytes, kPage) {}

void SharedMemory::begin_block(std::size_t dynamic_bytes) {
  objects_.clear();
  sanitizers::unpoison(memory_.data(), kSharedBytes);
  std::fill(memory_.data(), memory_.data() + kSharedBytes, kPoison);
  sanitizers::poison(memory_.data(), kSharedBytes);
  next_ = memory_.data() + kFirstOffset;
  dynamic_ = memory_.data() + (kSharedBytes - dynamic_bytes) / 1024 * 1024;
  dynamic_bytes_ = used_bytes_ = dynamic_bytes;
  sanitizers::unpoison(dynamic_, dynamic_bytes);
}

std::byte* SharedMemory::object(const void* key, std::size_t bytes, std::size_t alignment) {
  for (const Object& object : objects_) {
    if (object.key == key) return object.data;
  }
  next_ += kGap;
  next_ += (alignment - reinterpret_cast<std::uintptr_t>(next_) % alignment) % alignment;
  if (next_ + bytes + kGap > dynamic_) return nullptr;
  objects_.push_back({key, next_, bytes});
  sanitizers::unpoison(next_, bytes);
  next_ += bytes;
  used_bytes_ += bytes;
  return objects_.back().data;
}

bool SharedMemory::contains(const void* address) const {
  const auto* place = static_cast<const std::byte*>(address);
  return place >= memory_.data() && place < memory_.data() + kSharedBytes;
}

bool SharedMemory::holds(const void* address, std::size_t bytes) const {
  const auto* place = static_cast<const std::byte*>(address);
  const auto within = [&](const std::byte* begin, std::size_t size) {
    return place >= begin && place + bytes <= begin + size;
  };
  return within(dynamic_, dynamic_bytes_) || std::any_of(objects_.begin(), objects_.end(), [&](const Object& object) {
           return within(object.data, object.bytes);
         });
}

std::uint32_t SharedMemory::offset_of(const void* address) const {
  return static_cast<std::uint32_t>(static_cast<const std::byte*>(address) - memory_.data());
}

std::byte* SharedMemory::at(std::uint32_t offset) const {
  return memory_.data() + offset;
}

bool SharedMemory::intact() const {
  const std::byte* begin = memory_.data();
  for (const Object& object : objects_) {
    if (!is_poison(begin, object.data)) return false;
    begin = object.data + object.bytes;
  }
  return is_poison(begin, dynamic_) && is_poison(dynamic_ + dynamic_bytes_, memory_.data() + kSharedBytes);
}

}  // namespace tessera::emulation
