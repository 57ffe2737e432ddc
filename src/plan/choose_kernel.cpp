#include "plan/choose_kernel.h"

#include <fmt/ranges.h>

#include "base/error.h"

namespace tessera::plan {

KernelChoice choose_kernel(const backends::Device& device, const ops::NodeView& view) {
  KernelChoice choice;
  for (const backends::KernelEntry* entry : device.kernels_for(view.op().name)) {
    std::string reason = entry->reject != nullptr ? entry->reject(view) : std::string();
    if (reason.empty()) {
      choice.entry = entry;
      return choice;
    }
    choice.rejected.push_back(fmt::format("{}: {}", entry->name, reason));
  }
  if (choice.rejected.empty()) fail(ErrorKind::unsupported, "device '{}' has no kernel for {}", device.name(), view.op().name);
  fail(ErrorKind::unsupported, "no kernel of device '{}' takes this {}: {}", device.name(), view.op().name, fmt::join(choice.rejected, "; "));
}

}  // namespace tessera::plan
