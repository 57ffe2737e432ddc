// Gather, GatherElements, GatherND: reading a tensor at given indices.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef gather;
extern const OpDef gather_elements;
extern const OpDef gather_nd;

// Dimensions of GatherND's result; throws Error(invalid_model) when ranks and batch_dims do not fit.
ir::Dims gather_nd_dims(const ir::Dims& data, const ir::Dims& indices, std::int64_t batch_dims);

}  // namespace tessera::ops
