// ScatterElements, ScatterND, TensorScatter: a copy of a tensor with values written at given indices.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef scatter_elements;
extern const OpDef scatter_nd;
extern const OpDef tensor_scatter;

// How an update is combined with the element that it replaces.
enum class ScatterReduction : std::uint8_t { none, add, mul, max, min };
ScatterReduction scatter_reduction(const AttributeReader& reader);

}  // namespace tessera::ops
