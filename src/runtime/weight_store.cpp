#include "runtime/weight_store.h"

#include <map>
#include <mutex>
#include <string>

namespace tessera::runtime {
namespace {

using Key = std::pair<const void*, std::string>;

// What a packing keeps with it.
struct Holder {
  backends::PackedWeights packed;
  Tensor weights;
  MemoryCharge charge;
};

}  // namespace

struct SharedWeightStore::State {
  std::shared_ptr<MemoryAccount> account;
  std::mutex mutex;
  std::map<Key, std::weak_ptr<const backends::PackedWeights>> packings;

  void forget(const Key& key) {
    std::lock_guard lock(mutex);
    const auto found = packings.find(key);
    if (found != packings.end() && found->second.expired()) packings.erase(found);
  }
};

SharedWeightStore::SharedWeightStore(std::shared_ptr<MemoryAccount> account) : state_(std::make_shared<State>()) { state_->account = std::move(account); }

std::shared_ptr<const backends::PackedWeights> SharedWeightStore::find_or_pack(const Tensor& weights, std::string_view packing,
                                                                               const std::function<backends::PackedWeights()>& pack) {
  // Views of one storage under different shapes may pack differently, so the shape is part of the key.
  const Key key(weights.raw(), std::string(packing) + to_string(weights.shape()));
  std::lock_guard lock(state_->mutex);
  std::weak_ptr<const backends::PackedWeights>& entry = state_->packings[key];
  if (std::shared_ptr<const backends::PackedWeights> packed = entry.lock()) return packed;
  backends::PackedWeights made = pack();
  MemoryCharge charge(state_->account, Purpose::packed_weights, made.bytes);
  const std::shared_ptr<const Holder> holder(new Holder{std::move(made), weights, std::move(charge)}, [state = state_, key](const Holder* last) {
    state->forget(key);
    delete last;
  });
  std::shared_ptr<const backends::PackedWeights> packed(holder, &holder->packed);
  entry = packed;
  return packed;
}

std::size_t SharedWeightStore::size() const {
  std::lock_guard lock(state_->mutex);
  return state_->packings.size();
}

}  // namespace tessera::runtime
