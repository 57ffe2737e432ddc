#include "backends/reference/reference_device.h"

#include "backends/device_properties.h"
#include "base/cpu_info.h"

namespace tessera::backends {
namespace {

DeviceProperties properties_of_machine() {
  const base::CpuInfo& info = base::cpu_info();
  DeviceProperties properties;
  properties.product = info.model_name;
  properties.instruction_set = "reference";
  properties.memory_bytes = base::usable_memory_bytes();
  properties.multiprocessors = info.usable_cores;
  return properties;
}

class ReferenceDevice final : public Device {
 public:
  std::string_view name() const override { return "reference"; }
  std::span<const KernelEntry* const> kernels_for(std::string_view op) const override { return index_.find(op); }
  const DeviceProperties& properties() const override {
    static const DeviceProperties machine = properties_of_machine();
    return machine;
  }

 private:
  KernelIndex index_{reference_kernel_table()};
};

}  // namespace

const Device& reference_device() {
  static const ReferenceDevice device;
  return device;
}

}  // namespace tessera::backends
