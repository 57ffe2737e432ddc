#include "backends/device_copies.h"

#include <map>
#include <mutex>
#include <utility>

#include "base/assert.h"

namespace tessera::backends {

struct DeviceCopies::State {
  const Device& device;
  std::mutex mutex;                                                            // held while a block is copied
  std::map<std::pair<const void*, std::int64_t>, std::weak_ptr<void>> copies;  // by key and size

  explicit State(const Device& given) : device(given) {}
};

namespace {

struct Copy {
  DeviceMemory& memory;
  void* address;
  std::shared_ptr<const void> owner;

  Copy(DeviceMemory& in, std::int64_t bytes, std::shared_ptr<const void> of)
      : memory(in), address(in.allocate(bytes)), owner(std::move(of)) {}
  ~Copy() { memory.free(address); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
};

}  // namespace

DeviceCopies::DeviceCopies(const Device& device) : state_(std::make_shared<State>(device)) {
  TESSERA_ASSERT(!device.is_host(), "a host device reads host memory as it is");
}

std::shared_ptr<void> DeviceCopies::find(const void* key, std::int64_t bytes) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->copies.find({key, bytes});
  return found != state_->copies.end() ? found->second.lock() : nullptr;
}

std::shared_ptr<void> DeviceCopies::find_or_copy(const Tensor& tensor) {
  if (std::shared_ptr<void> found = find(tensor.storage(), tensor.bytes())) return found;
  const Tensor contents = tensor.contents();
  return find_or_copy(tensor.storage(), contents.raw(), tensor.bytes(), std::make_shared<Tensor>(tensor));
}

std::shared_ptr<void> DeviceCopies::find_or_copy(const void* key, const void* from, std::int64_t bytes,
                                                 std::shared_ptr<const void> owner) {
  const std::lock_guard lock(state_->mutex);
  std::weak_ptr<void>& known = state_->copies[{key, bytes}];
  if (std::shared_ptr<void> found = known.lock()) return found;
  auto copy = std::make_shared<Copy>(state_->device.memory(), bytes, std::move(owner));
  if (bytes > 0) {
    const std::unique_ptr<Stream> stream = state_->device.make_stream();
    stream->copy_to_device(copy->address, from, bytes);
    stream->synchronise();
  }
  void* address = copy->address;
  std::shared_ptr<void> result(std::move(copy), address);
  known = result;
  // Entries of copies that are gone cost little, but there may be a new one for each plan.
  std::erase_if(state_->copies, [](const auto& entry) { return entry.second.expired(); });
  return result;
}

std::int64_t DeviceCopies::size() const {
  const std::lock_guard lock(state_->mutex);
  std::int64_t held = 0;
  for (const auto& [key, copy] : state_->copies) held += copy.expired() ? 0 : 1;
  return held;
}

}  // namespace tessera::backends
