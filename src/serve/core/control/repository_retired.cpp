// The end of versions that others have taken the place of.
#include <malloc.h>

#include <algorithm>
#include <chrono>

#include "serve/core/models/repository.h"

namespace tessera::serve {
namespace {

constexpr std::chrono::milliseconds kLookAtSequences{20};

}  // namespace

void Repository::retire(Versions versions, bool keep_sequences) {
  {
    const std::lock_guard lock(retired_mutex_);
    for (auto& [number, servable] : versions) retired_.push_back({std::move(servable), keep_sequences});
  }
  retired_changed_.notify_all();
}

// What a version had allocated lay apart in the arenas of all threads that loaded and served it, most of them ended
// since. The allocator keeps such memory for later; whole pages of it go back to the system here.
void Repository::reap() {
  std::unique_lock lock(retired_mutex_);
  bool has_freed = false;
  while (true) {
    const auto next = std::ranges::find_if(retired_, [this](const Retired& retired) {
      return stopping_ || !retired.keeps_sequences || retired.servable->open_sequences() == 0;
    });
    if (next == retired_.end() && std::exchange(has_freed, false)) {
      lock.unlock();
      ::malloc_trim(0);
      lock.lock();
      continue;
    }
    if (next == retired_.end()) {
      if (!retired_.empty()) retired_changed_.wait_for(lock, kLookAtSequences);
      else if (stopping_) return;
      else retired_changed_.wait(lock);
      continue;
    }
    std::shared_ptr<Servable> last = std::move(next->servable);
    retired_.erase(next);
    lock.unlock();
    last->drain();
    // A thread of the model itself may hold it for a moment, and must not be the one that ends it.
    while (last.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    last.reset();
    has_freed = true;
    lock.lock();
  }
}

}  // namespace tessera::serve
