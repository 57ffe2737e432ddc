// Copies of host memory that does not change (constants of a model, packed weights) in the memory of a device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"

namespace tessera::backends {

// A copy that may still be on its way. Work on other streams that reads it is enqueued behind a wait for `arrived`.
struct DeviceCopy {
  std::shared_ptr<void> address;
  std::shared_ptr<const Event> arrived;  // null: it is there
};

// Keeps one copy of each block for as long as somebody holds it. Thread-safe: who asks for a block that is being copied
// waits for it. Copies may outlive this.
class DeviceCopies {
 public:
  explicit DeviceCopies(const Device& device);  // no host
  // The device address of a copy of the weights, which the copy keeps alive. The copy is complete when the call
  // returns. Throws Error(over_budget).
  std::shared_ptr<void> find_or_copy(const PackedWeights& weights) {
    return find_or_copy(weights.data.get(), weights.data.get(), weights.bytes, weights.data);
  }
  // The same of a tensor, of anything but strings. The elements of a deferred one are computed for the copy alone.
  std::shared_ptr<void> find_or_copy(const Tensor& tensor);
  // Copies of tensors that are not deferred, without waiting: those that nobody holds yet are enqueued in this order on
  // a stream of this object's own. The event of a copy is that of its group: all that one group enqueues arrives
  // together. What is returned has the shape of `groups`. Throws Error(over_budget) before anything is enqueued; a copy
  // that fails is an error of who waits for its event.
  std::vector<std::vector<DeviceCopy>> find_or_begin(std::span<const std::vector<Tensor>> groups);
  // Copies that somebody holds.
  std::int64_t size() const;

 private:
  // `key` names the block for as long as `owner` lives.
  std::shared_ptr<void> find_or_copy(const void* key, const void* from, std::int64_t bytes,
                                     std::shared_ptr<const void> owner);
  std::shared_ptr<void> find(const void* key, std::int64_t bytes) const;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::backends
