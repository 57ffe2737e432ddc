#include "runtime/memory/equal_packings.h"

#include <cstring>

namespace tessera::runtime {

struct EqualPackings::State {
  using Key = std::pair<std::string, std::int64_t>;  // name, bytes
  using Packing = std::shared_ptr<const std::byte[]>;

  mutable std::mutex mutex;
  std::map<Key, std::vector<std::weak_ptr<const std::byte[]>>> packings;

  std::vector<Packing> candidates(const Key& key) {
    std::vector<Packing> found;
    std::lock_guard lock(mutex);
    const auto same = packings.find(key);
    if (same == packings.end()) return found;
    for (const auto& each : same->second) {
      if (Packing packing = each.lock()) found.push_back(std::move(packing));
    }
    return found;
  }

  void forget_unused(const Key& key) {
    std::lock_guard lock(mutex);
    const auto same = packings.find(key);
    if (same == packings.end()) return;
    std::erase_if(same->second, [](const auto& each) { return each.expired(); });
    if (same->second.empty()) packings.erase(same);
  }
};

EqualPackings::EqualPackings() : state_(std::make_shared<State>()) {}

EqualPackings& EqualPackings::process() {
  static EqualPackings packings;
  return packings;
}

std::shared_ptr<const std::byte[]> EqualPackings::share(const std::string& name, std::int64_t bytes,
                                                        std::shared_ptr<const std::byte[]> packed) {
  if (bytes < kLeastBytes) return packed;
  State::Key key(name, bytes);
  for (State::Packing& other : state_->candidates(key)) {
    if (std::memcmp(other.get(), packed.get(), static_cast<std::size_t>(bytes)) == 0) return std::move(other);
  }
  // Counted apart from the slab that holds the bytes, so that it is known when this packing is no longer used.
  const std::byte* data = packed.get();
  State::Packing shared(data, [state = state_, key, packed = std::move(packed)](const std::byte*) mutable {
    packed.reset();
    state->forget_unused(key);
  });
  std::lock_guard lock(state_->mutex);
  state_->packings[std::move(key)].push_back(shared);
  return shared;
}

std::size_t EqualPackings::size() const {
  std::lock_guard lock(state_->mutex);
  std::size_t count = 0;
  for (const auto& [key, same] : state_->packings) {
    for (const auto& each : same) count += each.expired() ? 0 : 1;
  }
  return count;
}

}  // namespace tessera::runtime
