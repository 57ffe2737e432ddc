#include "serve/http/body.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace tessera::serve {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kLeastReservedBytes = 4096;

}  // namespace

BodyBuffer::BodyBuffer(std::size_t size, std::size_t aligned_at) : size_(size) {
  const std::size_t before = (kAlignment - aligned_at % kAlignment) % kAlignment;
  memory_ = std::shared_ptr<void>(::operator new(before + size, std::align_val_t{kAlignment}),
                                  [](void* memory) { ::operator delete(memory, std::align_val_t{kAlignment}); });
  begin_ = static_cast<char*>(memory_.get()) + before;
}

void GrowingBody::Free::operator()(void* memory) const {
  std::free(memory);
}

void GrowingBody::append(std::string_view bytes) {
  if (bytes.empty()) return;
  if (bytes.size() > reserved_ - size_) {
    const std::size_t reserved = std::max({kLeastReservedBytes, size_ + bytes.size(), reserved_ + reserved_ / 2});
    auto* const grown = static_cast<char*>(std::realloc(memory_.get(), reserved));
    if (grown == nullptr) throw std::bad_alloc();
    static_cast<void>(memory_.release());
    memory_.reset(grown);
    reserved_ = reserved;
  }
  std::memcpy(memory_.get() + size_, bytes.data(), bytes.size());
  size_ += bytes.size();
}

Body GrowingBody::take() {
  const std::string_view bytes(memory_.get(), std::exchange(size_, 0));
  reserved_ = 0;
  return {std::shared_ptr<const void>(memory_.release(), Free()), bytes};
}

Body body_of(std::string text) {
  auto owner = std::make_shared<std::string>(std::move(text));
  const std::string_view bytes = *owner;
  return {std::move(owner), bytes};
}

}  // namespace tessera::serve
