#include "backends/device_weights.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "backends/staged_uploads.h"
#include "base/assert.h"

namespace tessera::backends {
namespace {

// Packed weights on the device, with what must live as long.
struct Held {
  DeviceMemory& memory;
  Tensor weights;
  std::shared_ptr<void> charge;
  std::byte* address;

  Held(DeviceMemory& in, Tensor of, std::int64_t bytes, const DeviceCharge& charges)
      : memory(in),
        weights(std::move(of)),
        charge(charges ? charges(bytes) : nullptr),
        address(static_cast<std::byte*>(in.allocate(bytes))) {}
  ~Held() { memory.free(address); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
};

// A packing that is kept, or that one thread makes while it holds the mutex.
struct Entry {
  std::mutex mutex;
  std::weak_ptr<const PackedWeights> packed;
};

}  // namespace

struct DeviceWeights::State {
  // The storage of the constant, and the packing with the shape: views of one storage under different shapes may pack
  // differently.
  using Key = std::pair<const void*, std::string>;
  const Device& device;
  WeightStore& host;
  const DeviceCharge charge;
  const Staging staging;
  mutable std::mutex mutex;
  std::map<Key, std::shared_ptr<Entry>> entries;

  State(const Device& on, WeightStore& packs, DeviceCharge charges, Staging stages)
      : device(on), host(packs), charge(std::move(charges)), staging(std::move(stages)) {}

  std::shared_ptr<Entry> entry(Key key) {
    const std::lock_guard lock(mutex);
    // Entries that nobody holds or makes: without this there could be new ones with each plan.
    std::erase_if(entries,
                  [](const auto& each) { return each.second.use_count() == 1 && each.second->packed.expired(); });
    std::shared_ptr<Entry>& found = entries[std::move(key)];
    if (found == nullptr) found = std::make_shared<Entry>();
    return found;
  }

  void copy(const PackedWeights& packed, const Held& to) const {
    if (packed.bytes == 0) return;
    const std::unique_ptr<Stream> stream = device.make_stream();
    StagedUploads uploads(device, staging);
    uploads.copy(*stream, to.address, packed.data.get(), packed.bytes);
    stream->synchronise();
    uploads.release_all();
  }
};

DeviceWeights::DeviceWeights(const Device& device, WeightStore& host, DeviceCharge charge, Staging staging)
    : state_(std::make_shared<State>(device, host, std::move(charge), std::move(staging))) {
  TESSERA_ASSERT(!device.is_host(), "kernels of a host read packed weights in host memory");
}

std::shared_ptr<const PackedWeights> DeviceWeights::find_or_pack(const Tensor& weights, std::string_view packing,
                                                                 std::int64_t bytes, const PackFunction& pack) {
  const std::shared_ptr<Entry> entry =
      state_->entry({weights.storage(), std::string(packing) + to_string(weights.shape())});
  const std::lock_guard lock(entry->mutex);
  if (std::shared_ptr<const PackedWeights> found = entry->packed.lock()) return found;
  const std::shared_ptr<const PackedWeights> packed = state_->host.find_or_pack(weights, packing, bytes, pack);
  auto held = std::make_shared<Held>(state_->device.memory(), weights, packed->bytes, state_->charge);
  state_->copy(*packed, *held);
  const std::byte* const address = held->address;
  auto result = std::make_shared<const PackedWeights>(
      PackedWeights{std::shared_ptr<const std::byte[]>(std::move(held), address), packed->bytes});
  entry->packed = result;
  return result;
}

std::int64_t DeviceWeights::size() const {
  const std::lock_guard lock(state_->mutex);
  std::int64_t held = 0;
  for (const auto& [key, entry] : state_->entries) held += entry->packed.expired() ? 0 : 1;
  return held;
}

}  // namespace tessera::backends
