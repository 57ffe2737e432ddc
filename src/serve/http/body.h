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

Body body_of(std::string text);

}  // namespace tessera::serve
