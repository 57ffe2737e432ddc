#include "backends/cpu/cpu_device.h"

#include "backends/cpu/kernel_table.h"
#include "backends/device_properties.h"
#include "backends/reference/reference_device.h"
#include "base/cpu_info.h"

namespace tessera::backends {
namespace {

DeviceProperties properties_of_machine() {
  const base::CpuInfo& info = base::cpu_info();
  DeviceProperties properties;
  properties.product = info.model_name;
  properties.instruction_set = base::isa_name(info);
  properties.memory_bytes = base::usable_memory_bytes();
  properties.multiprocessors = info.usable_cores;
  properties.l2_bytes = info.cache(2).bytes;
  properties.native_products = {
      .f64 = true, .f32 = true, .bf16 = info.avx512_bf16 || info.amx, .int8 = info.avx512_vnni || info.amx};
  properties.is_calibrated = true;
  return properties;
}

class CpuDevice final : public Device {
 public:
  std::string_view name() const override { return "cpu"; }
  std::span<const KernelEntry* const> kernels_for(std::string_view op) const override { return index_.find(op); }
  const DeviceProperties& properties() const override {
    static const DeviceProperties machine = properties_of_machine();
    return machine;
  }
  bool supports_float16() const override { return false; }
  bool preempts() const override { return true; }
  bool flushes_denormals() const override { return true; }

 private:
  KernelIndex index_{cpu::kernel_tables(), reference_kernel_table()};
};

}  // namespace

const Device& cpu_device() {
  static const CpuDevice device;
  return device;
}

}  // namespace tessera::backends
