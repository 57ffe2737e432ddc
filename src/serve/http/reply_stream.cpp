#include "serve/http/reply_stream.h"

#include <utility>

namespace tessera::serve {

void ReplyStream::write(std::string bytes, Next next) {
  std::function<void()> wake;
  bool is_open = true, has_room = false;
  {
    const std::lock_guard lock(mutex_);
    is_open = !is_closed_;
    if (is_open) {
      if (waiting_.empty()) waiting_ = std::move(bytes);
      else waiting_ += bytes;
      has_room = waiting_.size() < kMostWaitingBytes;
      if (!has_room) next_ = std::exchange(next, nullptr);
      if (std::exchange(sleeps_, false)) wake = wake_;
    }
  }
  if (wake) wake();
  if (next) next(is_open);
}

void ReplyStream::end() {
  std::function<void()> wake;
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    if (std::exchange(sleeps_, false)) wake = wake_;
  }
  if (wake) wake();
}

void ReplyStream::attach(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

std::optional<ReplyStream::Piece> ReplyStream::take() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty() && !has_ended_) {
    sleeps_ = true;
    return std::nullopt;
  }
  return Piece{std::exchange(waiting_, {}), has_ended_};
}

void ReplyStream::sent() {
  Next next;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() < kMostWaitingBytes) next = std::exchange(next_, nullptr);
  }
  if (next) next(true);
}

void ReplyStream::close() {
  Next next;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    sleeps_ = false;
    waiting_ = {};
    wake_ = nullptr;
    next = std::exchange(next_, nullptr);
  }
  if (next) next(false);
}

}  // namespace tessera::serve
