// Simulates any device that has a profile: memory that the host cannot access, asynchronous streams, results computed
// by kernels of a host, durations from the cost model in virtual time, faults on demand (docs/simulated.md).
#pragma once

#include <memory>
#include <vector>

#include "backends/backend.h"
#include "backends/simulated/options.h"
#include "backends/simulated/timeline.h"

namespace tessera::backends::simulated {

// The host devices that a simulated device may compute with.
struct ComputeDevices {
  const Device& cpu;
  const Device& reference;
};

class SimulatedDevice final : public Device {
 public:
  // Kernels, streams, events and memory of the device must not outlive it.
  SimulatedDevice(Options options, const ComputeDevices& devices);
  ~SimulatedDevice() override;

  std::string_view name() const override;
  std::span<const KernelEntry* const> kernels_for(std::string_view op) const override;
  bool supports_float16() const override;
  bool flushes_denormals() const override;
  KernelPointer make_kernel(const KernelEntry& entry, const ops::NodeView& view, WeightStore& weights) const override;
  bool is_host() const override { return false; }
  std::unique_ptr<Stream> make_stream() const override;
  std::unique_ptr<Event> make_event() const override;
  DeviceMemory& memory() const override;
  bool can_capture() const override { return true; }
  const Device& host_fallback() const override;
  double copy_seconds(std::int64_t bytes) const override;
  const DeviceProperties& properties() const override;
  DeviceActivity activity() const override;

  const Options& options() const;
  // The times at which the device's operations begin and end. The device has a virtual clock of its own unless it is
  // given another one: that of the threads which share it, if their order is to be the same in each run.
  Timeline& timeline() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// Returns the device of that name, created at the first call and kept until the process ends. Names that mean the same
// options denote the same device. Throws as parse_options does.
const SimulatedDevice& find_simulated_device(std::string_view name, const ComputeDevices& devices);
// The devices that find_simulated_device() has returned so far, by name.
std::vector<const Device*> simulated_devices();

}  // namespace tessera::backends::simulated
