// The bytes of a request's body, which tensors may view instead of copying them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tessera::serve {

struct Body {
  std::shared_ptr<const void> owner;
  std::string_view bytes;
};

// Memory for `size` bytes such that the byte at `aligned_at` lies at a multiple of 64, which tensors want of their
// elements. Throws std::bad_alloc.
class BodyBuffer {
 public:
  BodyBuffer() = default;
  BodyBuffer(std::size_t size, std::size_t aligned_at);

  char* data() const { return begin_; }
  std::size_t size() const { return size_; }
  Body body() && { return {std::move(memory_), {begin_, size_}}; }

 private:
  std::shared_ptr<void> memory_;
  char* begin_ = nullptr;
  std::size_t size_ = 0;
};

// Memory that grows as bytes are appended, by at most half of what it holds, and without a second copy of what it holds
// where the system can move pages. What it has reserved beyond size() has not been touched.
class GrowingBody {
 public:
  GrowingBody() = default;
  GrowingBody(GrowingBody&&) = default;
  GrowingBody& operator=(GrowingBody&&) = default;

  // Throws std::bad_alloc.
  void append(std::string_view bytes);
  std::size_t size() const { return size_; }
  // Returns the bytes that were appended; this is empty afterwards.
  Body take();

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  std::unique_ptr<char, Free> memory_;
  std::size_t size_ = 0, reserved_ = 0;
};

Body body_of(std::string text);

}  // namespace tessera::serve
