#include "serve/http/body.h"

#include <new>

namespace tessera::serve {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

BodyBuffer::BodyBuffer(std::size_t size, std::size_t aligned_at) : size_(size) {
  const std::size_t before = (kAlignment - aligned_at % kAlignment) % kAlignment;
  memory_ = std::shared_ptr<void>(::operator new(before + size, std::align_val_t{kAlignment}),
                                  [](void* memory) { ::operator delete(memory, std::align_val_t{kAlignment}); });
  begin_ = static_cast<char*>(memory_.get()) + before;
}

Body body_of(std::string text) {
  auto owner = std::make_shared<std::string>(std::move(text));
  const std::string_view bytes = *owner;
  return {std::move(owner), bytes};
}

}  // namespace tessera::serve
