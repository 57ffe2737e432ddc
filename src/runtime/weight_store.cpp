#include "runtime/weight_store.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "base/file_pages.h"
#include "runtime/packed_memory.h"

namespace tessera::runtime {
namespace {

using Key = std::pair<const void*, std::string>;

// What a packing keeps with it.
struct Holder {
  backends::PackedWeights packed;
  Tensor weights;
  MemoryCharge charge;
};

struct Entry {
  std::weak_ptr<const backends::PackedWeights> packed;
  bool in_the_making = false;
};

}  // namespace

struct SharedWeightStore::State {
  std::shared_ptr<MemoryAccount> account;
  PackedMemory memory;
  mutable std::mutex mutex;
  std::condition_variable made;
  std::map<Key, Entry> entries;

  // With the mutex held.
  void forget_if_unused(const Key& key) {
    const auto found = entries.find(key);
    if (found != entries.end() && !found->second.in_the_making && found->second.packed.expired()) entries.erase(found);
  }

  // The packing, or nothing when the caller is to make it and then call finish().
  std::shared_ptr<const backends::PackedWeights> find_or_begin(const Key& key) {
    std::unique_lock lock(mutex);
    for (;;) {
      Entry& entry = entries[key];
      if (std::shared_ptr<const backends::PackedWeights> packed = entry.packed.lock()) return packed;
      if (!entry.in_the_making) {
        entry.in_the_making = true;
        return nullptr;
      }
      made.wait(lock);
    }
  }

  // `packed`: null when it could not be made.
  void finish(const Key& key, const std::shared_ptr<const backends::PackedWeights>& packed) {
    {
      std::lock_guard lock(mutex);
      Entry& entry = entries[key];
      entry.packed = packed;
      entry.in_the_making = false;
      forget_if_unused(key);
    }
    made.notify_all();
  }
};

SharedWeightStore::SharedWeightStore(std::shared_ptr<MemoryAccount> account) : state_(std::make_shared<State>()) { state_->account = std::move(account); }

std::shared_ptr<const backends::PackedWeights> SharedWeightStore::find_or_pack(const Tensor& weights, std::string_view packing, std::int64_t bytes,
                                                                               const backends::PackFunction& pack) {
  // Views of one storage under different shapes may pack differently, so the shape is part of the key.
  const Key key(weights.raw(), std::string(packing) + to_string(weights.shape()));
  if (std::shared_ptr<const backends::PackedWeights> packed = state_->find_or_begin(key)) return packed;
  std::shared_ptr<const backends::PackedWeights> packed;
  try {
    MemoryCharge charge(state_->account, Purpose::packed_weights, bytes);
    const std::shared_ptr<std::byte[]> data = state_->memory.allocate(bytes);
    pack(data.get());
    base::release_file_pages(weights.raw(), static_cast<std::size_t>(weights.bytes()));
    const std::shared_ptr<const Holder> holder(new Holder{{data, bytes}, weights, std::move(charge)}, [state = state_, key](const Holder* last) {
      delete last;
      std::lock_guard lock(state->mutex);
      state->forget_if_unused(key);
    });
    packed = {holder, &holder->packed};
  } catch (...) {
    state_->finish(key, nullptr);
    throw;
  }
  state_->finish(key, packed);
  return packed;
}

std::size_t SharedWeightStore::size() const {
  std::lock_guard lock(state_->mutex);
  return state_->entries.size();
}

}  // namespace tessera::runtime
