#include "backends/cpu/cpu_device.h"

#include "backends/cpu/kernel_table.h"
#include "backends/reference/reference_device.h"

namespace tessera::backends {
namespace {

class CpuDevice final : public Device {
 public:
  std::string_view name() const override { return "cpu"; }
  std::span<const KernelEntry* const> kernels_for(std::string_view op) const override { return index_.find(op); }
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
