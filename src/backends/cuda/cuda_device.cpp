#include "backends/cuda/cuda_device.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <mutex>
#include <string>

#include "backends/cuda/cuda_memory.h"
#include "backends/cuda/kernel_images.h"
#include "backends/cuda/kernel_table.h"
#include "backends/cuda/machine.h"
#include "base/error.h"

namespace tessera::backends::cuda {
namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice(const DriverApi& api, int ordinal, const Device& host)
      : machine_(api, ordinal), memory_(machine_), host_(host) {}

  std::string_view name() const override { return machine_.name(); }
  const DeviceProperties& properties() const override { return machine_.properties(); }
  std::span<const KernelEntry* const> kernels_for(std::string_view op) const override {
    static const KernelIndex index(kernel_table());
    return index.find(op);
  }
  bool is_host() const override { return false; }
  std::unique_ptr<Stream> make_stream() const override { return std::make_unique<CudaStream>(machine_); }
  std::unique_ptr<Event> make_event() const override { return std::make_unique<CudaEvent>(machine_); }
  DeviceMemory& memory() const override { return memory_; }
  bool can_capture() const override { return true; }
  const Device& host_fallback() const override { return host_; }
  // Ten microseconds and 12 GB/s, a PCI Express link of the third generation, until calibration measures the link.
  double copy_seconds(std::int64_t bytes) const override { return 10e-6 + static_cast<double>(bytes) / 12e9; }
  DeviceActivity activity() const override { return machine_.activity(); }

 private:
  mutable CudaMachine machine_;
  mutable CudaMemory memory_;
  const Device& host_;
};

// A GPU, or why it cannot be used.
struct Slot {
  std::unique_ptr<CudaDevice> device;
  std::string why;
};

struct Slots {
  std::string why;  // there is none; empty: there are some
  std::vector<Slot> slots;
};

Slots find_slots(const Device& host) {
  Slots found;
  const DriverApi* const api = driver::find_driver(&found.why);
  if (api == nullptr) return found;
  int count = 0;
  try {
    driver::check(*api, api->cuDeviceGetCount(&count), "cuDeviceGetCount");
  } catch (const Error& error) {
    found.why = error.what();
    return found;
  }
  if (count == 0) found.why = "the NVIDIA driver finds no GPU";
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Slot& slot = found.slots.emplace_back();
    try {
      slot.device = std::make_unique<CudaDevice>(*api, ordinal, host);
    } catch (const Error& error) {
      slot.why = error.what();
    }
  }
  return found;
}

// Throws Error(unsupported) where the program has no kernel for the device, on which everything would run on the host.
void check_images(const CudaDevice& device) {
  const std::span<const tessera::cuda::KernelImage> images = tessera::cuda::kernel_images();
  require(!images.empty(), ErrorKind::unsupported,
          "device '{}' cannot be used: this program was built without nvcc and holds no device code", device.name());
  const DeviceProperties& properties = device.properties();
  const int capability = properties.compute_capability.major * 10 + properties.compute_capability.minor;
  const bool any = std::ranges::any_of(images, [&](const tessera::cuda::KernelImage& image) {
    return choose_image(images, image.kernel, capability) != nullptr;
  });
  require(any, ErrorKind::unsupported, "device '{}' cannot be used: this program holds no device code for {} ({})",
          device.name(), properties.instruction_set, properties.product);
}

// Never destroyed: streams and blocks may live until the process ends.
const Slots& slots(const Device& host) {
  static const Slots& found = *new Slots(find_slots(host));
  return found;
}

}  // namespace

std::vector<const Device*> cuda_devices(const Device& host) {
  std::vector<const Device*> devices;
  for (const Slot& slot : slots(host).slots) {
    if (slot.device != nullptr) devices.push_back(slot.device.get());
  }
  return devices;
}

const Device& find_cuda_device(std::string_view name, const Device& host) {
  const std::string_view which = name.substr(std::min(name.size(), kDeviceKind.size() + 1));
  const Slots& found = slots(host);
  require(found.why.empty(), ErrorKind::unsupported, "device '{}' cannot be used: {}", name, found.why);
  std::size_t ordinal = 0;
  const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), ordinal);
  const bool is_number = which.empty() || (error == std::errc() && end == which.data() + which.size());
  require(is_number && ordinal < found.slots.size(), ErrorKind::invalid_argument,
          "there is no device '{}': this machine has {} GPU{}, numbered from cuda:0", name, found.slots.size(),
          found.slots.size() == 1 ? "" : "s");
  const Slot& slot = found.slots[ordinal];
  require(slot.device != nullptr, ErrorKind::unsupported, "device '{}' cannot be used: {}", name, slot.why);
  check_images(*slot.device);
  return *slot.device;
}

}  // namespace tessera::backends::cuda
