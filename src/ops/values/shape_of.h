// Shape and Size: dimensions and element count of a tensor, without its data.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef shape_of;
extern const OpDef size_of;

// Which dimensions Shape gives for a tensor of this rank: [first, last), after clamping `start` and `end`.
struct DimRange {
  std::int64_t first = 0, last = 0;
};
DimRange shape_range(const AttributeReader& reader, std::int64_t rank);

}  // namespace tessera::ops
