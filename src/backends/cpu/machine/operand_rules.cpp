#include "backends/cpu/machine/operand_rules.h"

namespace tessera::backends::cpu {

std::string reject_unless_f32(const ops::NodeView& view) {
  return view.input(0).dtype == DType::f32 ? "" : "takes f32";
}

}  // namespace tessera::backends::cpu
