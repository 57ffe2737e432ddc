#include "backends/simulated/simulated_device.h"

#include <map>
#include <mutex>

#include "backends/device_activity.h"
#include "backends/device_properties.h"
#include "backends/simulated/machine.h"
#include "backends/simulated/profile_properties.h"
#include "backends/simulated/simulated_kernel.h"
#include "backends/simulated/simulated_memory.h"
#include "backends/simulated/simulated_stream.h"

namespace tessera::backends::simulated {

struct SimulatedDevice::State {
  State(Options options, const ComputeDevices& devices)
      : machine(std::move(options)),
        memory(machine),
        computes_by(machine.options().compute == Compute::reference ? devices.reference : devices.cpu),
        host(devices.cpu),
        properties(properties_of(machine.options())) {}

  SimulatedMachine machine;
  SimulatedMemory memory;
  const Device& computes_by;  // the host device whose kernels it uses
  const Device& host;
  const DeviceProperties properties;
};

SimulatedDevice::SimulatedDevice(Options options, const ComputeDevices& devices)
    : state_(std::make_unique<State>(std::move(options), devices)) {}

SimulatedDevice::~SimulatedDevice() = default;

std::string_view SimulatedDevice::name() const {
  return state_->machine.name();
}

std::span<const KernelEntry* const> SimulatedDevice::kernels_for(std::string_view op) const {
  return state_->computes_by.kernels_for(op);
}

bool SimulatedDevice::supports_float16() const {
  return state_->computes_by.supports_float16();
}

bool SimulatedDevice::flushes_denormals() const {
  return state_->computes_by.flushes_denormals();
}

KernelPointer SimulatedDevice::make_kernel(const KernelEntry& entry, const ops::NodeView& view,
                                           WeightStore& weights) const {
  return make_simulated_kernel(state_->machine, state_->computes_by, entry, view, weights);
}

std::unique_ptr<Stream> SimulatedDevice::make_stream() const {
  return std::make_unique<SimulatedStream>(state_->machine);
}

std::unique_ptr<Event> SimulatedDevice::make_event() const {
  return std::make_unique<SimulatedEvent>(state_->machine);
}

DeviceMemory& SimulatedDevice::memory() const {
  return state_->memory;
}

// A device that computes by the reference also runs host steps by the reference, so that all results are equal to the
// reference's bit for bit.
const Device& SimulatedDevice::host_fallback() const {
  return state_->machine.options().compute == Compute::reference ? state_->computes_by : state_->host;
}

double SimulatedDevice::copy_seconds(std::int64_t bytes) const {
  const TimedOperation copy = state_->machine.copy_between(Engine::to_device, bytes);
  return static_cast<double>(copy.launch_ns + copy.duration_ns) * 1e-9;
}

const Options& SimulatedDevice::options() const {
  return state_->machine.options();
}

Timeline& SimulatedDevice::timeline() const {
  return state_->machine.timeline();
}

const DeviceProperties& SimulatedDevice::properties() const {
  return state_->properties;
}

DeviceActivity SimulatedDevice::activity() const {
  return state_->machine.activity();
}

namespace {

struct MadeDevices {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<SimulatedDevice>, std::less<>> by_name;

  // Never destroyed: streams and blocks may live until the process ends.
  static MadeDevices& all() {
    static MadeDevices& made = *new MadeDevices;
    return made;
  }
};

}  // namespace

const SimulatedDevice& find_simulated_device(std::string_view name, const ComputeDevices& devices) {
  Options options = parse_options(name);
  std::string canonical = name_of(options);
  MadeDevices& made = MadeDevices::all();
  const std::lock_guard lock(made.mutex);
  std::unique_ptr<SimulatedDevice>& device = made.by_name[std::move(canonical)];
  if (device == nullptr) device = std::make_unique<SimulatedDevice>(std::move(options), devices);
  return *device;
}

std::vector<const Device*> simulated_devices() {
  MadeDevices& made = MadeDevices::all();
  const std::lock_guard lock(made.mutex);
  std::vector<const Device*> devices;
  for (const auto& [name, device] : made.by_name) devices.push_back(device.get());
  return devices;
}

}  // namespace tessera::backends::simulated
