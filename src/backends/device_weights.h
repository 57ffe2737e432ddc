// Packed weights in the memory of a device.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/backend.h"
#include "backends/device_copies.h"

namespace tessera::backends {

// The store for kernels of a device with memory of its own: another store packs in host memory, the packed bytes are
// copied to the device, and the host's are let go. Each packing is kept once, for as long as a kernel uses it, with its
// constant, so that an address cannot come to mean another constant. Thread-safe: a thread that asks for a packing that
// is being made waits for it. Packings may outlive the store.
class DeviceWeights final : public WeightStore {
 public:
  // `host` packs, and finds what is packed already; it outlives this.
  DeviceWeights(const Device& device, WeightStore& host, DeviceCharge charge = {}, Staging staging = {});
  // The data of the result is a device address. Throws Error(over_budget) and whatever the other store throws.
  std::shared_ptr<const PackedWeights> find_or_pack(const Tensor& weights, std::string_view packing, std::int64_t bytes,
                                                    const PackFunction& pack) override;
  // Packings in use.
  std::int64_t size() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::backends
