#include "backends/reference/reference_device.h"

namespace tessera::backends {
namespace {

class ReferenceDevice final : public Device {
 public:
  std::string_view name() const override { return "reference"; }
  std::span<const KernelEntry* const> kernels_for(std::string_view op) const override { return index_.find(op); }

 private:
  KernelIndex index_{reference_kernel_table()};
};

}  // namespace

const Device& reference_device() {
  static const ReferenceDevice device;
  return device;
}

}  // namespace tessera::backends
