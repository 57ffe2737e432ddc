// Packed weights shared by all plans of a model.
#pragma once

#include <memory>
#include <string_view>

#include "backends/backend.h"
#include "runtime/memory.h"

namespace tessera::runtime {

// Keeps each packing of each constant once, for as long as a kernel uses it: a plan that goes takes the packings of its own
// folded constants with it. A packing holds its constant alive, so an address cannot come to mean another constant. Thread-safe:
// different packings are made at the same time, and who asks for one that is being made waits for it. Packings may outlive the store.
class SharedWeightStore final : public backends::WeightStore {
 public:
  explicit SharedWeightStore(std::shared_ptr<MemoryAccount> account);
  // Throws Error(over_budget) and whatever `pack` throws.
  std::shared_ptr<const backends::PackedWeights> find_or_pack(const Tensor& weights, std::string_view packing, std::int64_t bytes, const backends::PackFunction& pack) override;
  // Packings in use.
  std::size_t size() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::runtime
