// Packed weights shared by all plans of a model.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "backends/backend.h"
#include "runtime/memory.h"

namespace tessera::runtime {

// Keeps each packing of each constant once. Keys hold the constant's storage alive, so an address cannot come to mean
// another constant. Thread-safe; two threads that ask for the same packing wait for one of them to make it.
class SharedWeightStore final : public backends::WeightStore {
 public:
  explicit SharedWeightStore(std::shared_ptr<MemoryAccount> account) : account_(std::move(account)) {}
  ~SharedWeightStore() override;
  std::shared_ptr<const backends::PackedWeights> find_or_pack(const Tensor& weights, std::string_view packing,
                                                              const std::function<backends::PackedWeights()>& pack) override;

 private:
  struct Entry {
    Tensor weights;
    std::shared_ptr<const backends::PackedWeights> packed;
  };
  std::shared_ptr<MemoryAccount> account_;
  std::mutex mutex_;
  std::map<std::pair<const void*, std::string>, Entry> entries_;
  std::int64_t packed_bytes_ = 0;
};

}  // namespace tessera::runtime
