// Attributes that became inputs.
#include "io/onnx/upgrade_rules.h"

namespace tessera::io {

// Squeeze, Unsqueeze, Reduce*: attribute axes -> input 1
void axes_to_input(Upgrade& upgrade) {
  if (const auto axes = upgrade.take<std::vector<std::int64_t>>("axes")) upgrade.set_input(1, upgrade.integers(*axes));
}

}  // namespace tessera::io
