#include "backends/device_copies.h"

#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "base/assert.h"

namespace tessera::backends {

struct DeviceCopies::State {
  // A copy, kept only for as long as somebody holds it.
  struct Known {
    std::weak_ptr<void> address;
    std::weak_ptr<const Event> arrived;  // of an enqueued copy, which holds it
  };

  const Device& device;
  std::mutex mutex;                                              // held while a block is copied
  std::map<std::pair<const void*, std::int64_t>, Known> copies;  // by key and size
  std::unique_ptr<Stream> uploads;                               // of find_or_begin; created when first needed
  const DeviceCharge charge;
  const Staging staging;
  StagedUploads staged;  // on `uploads`

  // Returns a complete copy, or null. Requires that the mutex is held.
  std::shared_ptr<void> find_complete(const void* key, std::int64_t bytes) {
    const auto found = copies.find({key, bytes});
    if (found == copies.end()) return nullptr;
    std::shared_ptr<void> address = found->second.address.lock();
    if (address == nullptr) return nullptr;
    if (const std::shared_ptr<const Event> arrived = found->second.arrived.lock()) arrived->wait();
    return address;
  }

  // Removes the entries of copies that nobody holds; without this there could be new ones with each plan.
  void forget_gone() {
    std::erase_if(copies, [](const auto& entry) { return entry.second.address.expired(); });
  }

  State(const Device& given, DeviceCharge charges, Staging stages)
      : device(given), charge(std::move(charges)), staging(std::move(stages)), staged(given, staging) {}
};

namespace {

struct Copy {
  DeviceMemory& memory;
  std::shared_ptr<void> charge;
  void* address;
  std::shared_ptr<const void> owner;
  std::shared_ptr<const Event> arrived;  // of an enqueued copy

  Copy(DeviceMemory& in, std::int64_t bytes, std::shared_ptr<const void> of, const DeviceCharge& charges)
      : memory(in), charge(charges ? charges(bytes) : nullptr), address(in.allocate(bytes)), owner(std::move(of)) {}
  ~Copy() {
    try {
      if (arrived != nullptr) arrived->wait();
    } catch (const std::exception&) {
      // No caller waits for this copy, so its failure is ignored.
    }
    memory.free(address);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
};

}  // namespace

DeviceCopies::DeviceCopies(const Device& device, DeviceCharge charge, Staging staging)
    : state_(std::make_shared<State>(device, std::move(charge), std::move(staging))) {
  TESSERA_ASSERT(!device.is_host(), "a host device reads host memory as it is");
}

std::shared_ptr<void> DeviceCopies::find(const void* key, std::int64_t bytes) const {
  const std::lock_guard lock(state_->mutex);
  return state_->find_complete(key, bytes);
}

std::shared_ptr<void> DeviceCopies::find_or_copy(const Tensor& tensor) {
  const void* const key = tensor.storage();
  const std::int64_t bytes = tensor.bytes();
  if (std::shared_ptr<void> found = find(key, bytes)) return found;
  const Tensor contents = tensor.contents();
  const std::lock_guard lock(state_->mutex);
  if (std::shared_ptr<void> found = state_->find_complete(key, bytes)) return found;
  auto copy = std::make_shared<Copy>(state_->device.memory(), bytes, std::make_shared<Tensor>(tensor), state_->charge);
  if (bytes > 0) {
    const std::unique_ptr<Stream> stream = state_->device.make_stream();
    StagedUploads staged(state_->device, state_->staging);
    staged.copy(*stream, copy->address, contents.raw(), bytes);
    stream->synchronise();
    staged.release_all();
  }
  void* address = copy->address;
  std::shared_ptr<void> result(std::move(copy), address);
  state_->copies[{key, bytes}] = {result, {}};
  state_->forget_gone();
  return result;
}

std::vector<std::vector<DeviceCopy>> DeviceCopies::find_or_begin(std::span<const std::vector<Tensor>> groups) {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::vector<DeviceCopy>> result(groups.size());
  std::vector<std::vector<std::pair<std::shared_ptr<Copy>, const Tensor*>>> fresh(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const Tensor& tensor : groups[g]) {
      State::Known& known = state_->copies[{tensor.storage(), tensor.bytes()}];
      DeviceCopy& copy = result[g].emplace_back(known.address.lock(), known.arrived.lock());
      if (copy.address != nullptr) continue;
      auto made = std::make_shared<Copy>(state_->device.memory(), tensor.bytes(), std::make_shared<Tensor>(tensor),
                                         state_->charge);
      void* const address = made->address;
      fresh[g].emplace_back(made, &tensor);
      copy = {std::shared_ptr<void>(std::move(made), address), nullptr};
      known = {copy.address, {}};
    }
  }
  if (state_->uploads == nullptr) state_->uploads = state_->device.make_stream();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (fresh[g].empty()) continue;
    const std::shared_ptr<Event> arrived = state_->device.make_event();
    for (const auto& [copy, tensor] : fresh[g])
      state_->staged.copy(*state_->uploads, copy->address, tensor->raw(), tensor->bytes());
    state_->uploads->record(*arrived);
    for (const auto& [copy, tensor] : fresh[g]) {
      copy->arrived = arrived;
      state_->copies[{tensor->storage(), tensor->bytes()}].arrived = arrived;
    }
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i = 0; i < groups[g].size(); ++i)
      result[g][i].arrived = state_->copies[{groups[g][i].storage(), groups[g][i].bytes()}].arrived.lock();
  }
  state_->forget_gone();
  return result;
}

void DeviceCopies::release_staging() {
  const std::lock_guard lock(state_->mutex);
  state_->staged.release();
}

std::int64_t DeviceCopies::size() const {
  const std::lock_guard lock(state_->mutex);
  std::int64_t held = 0;
  for (const auto& [key, copy] : state_->copies) held += copy.address.expired() ? 0 : 1;
  return held;
}

}  // namespace tessera::backends
