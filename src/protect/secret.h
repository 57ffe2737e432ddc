// Memory for secrets: it is not swapped out, is left out of core dumps and is wiped before it goes back to the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace tessera::protect {

using Bytes = std::span<const std::uint8_t>;

// Bytes of a key or password, between guard pages. Small ones only: each takes four pages.
class Secret {
 public:
  Secret() = default;
  // Throws std::bad_alloc.
  explicit Secret(std::size_t bytes);
  static Secret random(std::size_t bytes);
  static Secret copy_of(Bytes bytes);
  ~Secret();
  Secret(Secret&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Secret& operator=(Secret&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::uint8_t* data() { return data_; }
  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  Bytes bytes() const { return {data_, bytes_}; }
  Bytes first(std::size_t count) const { return bytes().first(count); }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Zeros at a multiple of 4096 for decrypted sections, which take physical memory once they are written. Locking them
// needs the right to lock so much (ulimit -l); without it they may be swapped out. Whoever writes wipes.
class SecretMemory {
 public:
  // Throws std::bad_alloc.
  explicit SecretMemory(std::size_t bytes);
  ~SecretMemory();
  SecretMemory(SecretMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        is_locked_(other.is_locked_) {}
  SecretMemory& operator=(SecretMemory&&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  void wipe(std::size_t offset, std::size_t bytes);
  bool is_locked() const { return is_locked_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool is_locked_ = false;
};

}  // namespace tessera::protect
