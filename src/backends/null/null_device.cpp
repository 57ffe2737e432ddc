#include "backends/null/null_device.h"

namespace tessera::backends {
namespace {

void do_nothing(KernelContext&) {}

class NullDevice final : public Device {
 public:
  std::string_view name() const override { return "null"; }
  bool computes() const override { return false; }
  std::span<const KernelEntry* const> kernels_for(std::string_view) const override {
    static constexpr KernelEntry entry{.op = "*", .name = "null", .function = do_nothing};
    static constexpr const KernelEntry* entries[] = {&entry};
    return entries;
  }
};

}  // namespace

const Device& null_device() {
  static const NullDevice device;
  return device;
}

}  // namespace tessera::backends
