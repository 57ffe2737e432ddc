#include "ops/core/op_table.h"

#include "ops/core/after.h"
#include "ops/core/control_flow.h"
#include "ops/core/gradient.h"

namespace tessera::ops {

std::span<const OpDef* const> core_ops() {
  static constexpr const OpDef* table[] = {
      // control_flow
      &if_op,
      &loop,
      &scan,
      &sequence_map,
      // gradient
      &gradient,
      // after
      &after,
  };
  return table;
}

}  // namespace tessera::ops
