// Copies in device memory of host memory that does not change: constants of a model and packed weights.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"

namespace tessera::backends {

// A copy that may not be complete yet. Streams that read it must first wait for `arrived`.
struct DeviceCopy {
  std::shared_ptr<void> address;
  std::shared_ptr<const Event> arrived;  // null: complete
};

// Keeps one device copy of each block for as long as somebody holds it. Thread-safe: a thread that asks for a block
// that is being copied waits for the copy. Copies may outlive this object.
class DeviceCopies {
 public:
  explicit DeviceCopies(const Device& device);  // not a host
  // Returns the device address of a copy of the packed weights, which the copy keeps alive. The copy is complete when
  // the call returns. Throws Error(over_budget).
  std::shared_ptr<void> find_or_copy(const PackedWeights& weights) {
    return find_or_copy(weights.data.get(), weights.data.get(), weights.bytes, weights.data);
  }
  // Returns the device address of a complete copy of a tensor, of any type but strings. The elements of a deferred
  // tensor are computed only for the copy.
  std::shared_ptr<void> find_or_copy(const Tensor& tensor);
  // Begins copies of tensors that are not deferred, without waiting for them. Tensors without a copy are enqueued in
  // the given order on a stream of this object; all that one group enqueues shares one event. The result has the shape
  // of `groups`. Throws Error(over_budget) before anything is enqueued; a copy that fails is reported to whoever waits
  // for its event.
  std::vector<std::vector<DeviceCopy>> find_or_begin(std::span<const std::vector<Tensor>> groups);
  // The number of copies that somebody holds.
  std::int64_t size() const;

 private:
  // `key` identifies the block for as long as `owner` lives.
  std::shared_ptr<void> find_or_copy(const void* key, const void* from, std::int64_t bytes,
                                     std::shared_ptr<const void> owner);
  std::shared_ptr<void> find(const void* key, std::int64_t bytes) const;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::backends
