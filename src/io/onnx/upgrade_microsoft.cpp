// Operators of domain com.microsoft that are a standard operator under another name, or in its older packaging.
// Their schemas: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include "base/error.h"
#include "io/onnx/upgrade_rules.h"

namespace tessera::io {

// Trilu: the same as in the default domain.
void microsoft_same(Upgrade& upgrade) {
  upgrade.node.op.erase(0, upgrade.node.op.find("::") + 2);
}

// The step is optional, and 1 without it.
void microsoft_range(Upgrade& upgrade) {
  microsoft_same(upgrade);
  if (!upgrade.has_input(2)) upgrade.set_input(2, upgrade.real_like_input(1));
}

}  // namespace tessera::io
