// Copies in device memory of host memory that does not change: constants of a model and packed weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "backends/staged_uploads.h"

namespace tessera::backends {

// Charges bytes of a device's memory to whoever answers for them: returns an object that releases them when it goes.
// Throws Error(over_budget). Empty: nobody is charged.
using DeviceCharge = std::function<std::shared_ptr<void>(std::int64_t bytes)>;

// A copy that may not be complete yet. Streams that read it must first wait for `arrived`.
struct DeviceCopy {
  std::shared_ptr<void> address;
  std::shared_ptr<const Event> arrived;  // null: complete
};

// Keeps one device copy of each block for as long as somebody holds it. Thread-safe: a thread that asks for a block
// that is being copied waits for the copy. Copies may outlive this object.
class DeviceCopies {
 public:
  // `device` is no host.
  explicit DeviceCopies(const Device& device, DeviceCharge charge = {}, Staging staging = {});
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
  // Lets go of the staging memory of copies that are complete; cheap if there is none.
  void release_staging();

 private:
  std::shared_ptr<void> find(const void* key, std::int64_t bytes) const;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::backends
