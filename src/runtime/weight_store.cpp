#include "runtime/weight_store.h"

namespace tessera::runtime {

SharedWeightStore::~SharedWeightStore() { account_->release(Purpose::packed_weights, packed_bytes_); }

std::shared_ptr<const backends::PackedWeights> SharedWeightStore::find_or_pack(const Tensor& weights, std::string_view packing,
                                                                               const std::function<backends::PackedWeights()>& pack) {
  std::lock_guard lock(mutex_);
  // Views of one storage under different shapes may pack differently, so the shape is part of the key.
  std::string key = std::string(packing) + to_string(weights.shape());
  Entry& entry = entries_[{weights.raw(), std::move(key)}];
  if (entry.packed == nullptr) {
    backends::PackedWeights packed = pack();
    account_->charge(Purpose::packed_weights, packed.bytes);
    packed_bytes_ += packed.bytes;
    entry = {weights, std::make_shared<const backends::PackedWeights>(std::move(packed))};
  }
  return entry.packed;
}

}  // namespace tessera::runtime
