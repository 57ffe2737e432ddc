// Reuses the memory of batches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::train {

// Keeps the memory of batches that are no longer used for later ones, because fresh memory costs a page fault every 4
// KiB.
class TensorPool : public std::enable_shared_from_this<TensorPool> {
 public:
  Tensor take(DType type, const Shape& shape) {
    const std::int64_t bytes = byte_count(type, shape);
    std::optional<Tensor> storage;
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::ranges::find(idle_, bytes, &Tensor::bytes);
      if (found != idle_.end()) {
        storage = std::move(*found);
        idle_.erase(found);
      }
    }
    if (!storage) storage = Tensor(DType::u8, {bytes});
    void* data = storage->mutable_raw();
    const std::shared_ptr<const void> owner(data, [pool = weak_from_this(), kept = *storage](const void*) {
      if (const std::shared_ptr<TensorPool> alive = pool.lock()) alive->give_back(kept);
    });
    return Tensor(type, shape, data, owner);
  }

 private:
  static constexpr std::size_t kMostIdle = 64;

  void give_back(const Tensor& storage) {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMostIdle) idle_.push_back(storage);
  }

  std::mutex mutex_;
  std::vector<Tensor> idle_;
};

}  // namespace tessera::train
