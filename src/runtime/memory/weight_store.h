// Packed weights shared by all plans of a model.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "io/package.h"
#include "runtime/memory/memory.h"

namespace tessera::runtime {

// Keeps each packing of each constant once, for as long as a kernel uses it: a plan that goes takes the packings of its
// own folded constants with it. A packing holds its constant alive, so an address cannot come to mean another constant.
// Stores of other sessions that made equal packings share their memory (equal_packings.h); each is charged for it.
// Thread-safe: different packings are made at the same time, and who asks for one that is being made waits for it.
// Packings may outlive the store.
class SharedWeightStore final : public backends::WeightStore {
 public:
  // `stored`: packings that need not be made, or null. One whose size is not what the kernel expects is made anew.
  // `stream`: what reads the stored packings and the constants that are packed, or null. A constant is there before it
  // is packed. With `waits_for_stored` a stored packing is there, too, when find_or_pack returns.
  explicit SharedWeightStore(std::shared_ptr<MemoryAccount> account,
                             std::shared_ptr<const io::StoredPackings> stored = nullptr,
                             std::shared_ptr<io::WeightStream> stream = nullptr, bool waits_for_stored = false);
  // Throws Error(over_budget) and whatever `pack` throws.
  std::shared_ptr<const backends::PackedWeights> find_or_pack(const Tensor& weights, std::string_view packing,
                                                              std::int64_t bytes,
                                                              const backends::PackFunction& pack) override;
  // Packings in use.
  std::size_t size() const;
  // The packings in use with what they were made of, in no particular order.
  struct Held {
    Tensor weights;
    std::string name;
    std::shared_ptr<const backends::PackedWeights> packed;
  };
  std::vector<Held> packings() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Packs anew each time, for a kernel that nothing outlives.
class PackAtOnce final : public backends::WeightStore {
 public:
  std::shared_ptr<const backends::PackedWeights> find_or_pack(const Tensor& weights, std::string_view packing,
                                                              std::int64_t bytes,
                                                              const backends::PackFunction& pack) override;
};

}  // namespace tessera::runtime
