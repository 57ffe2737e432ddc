// Scales and shifts of normalisations in the form that the operators take.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace tessera::passes {

// A factor or addend that broadcasts over data of shape `dims` without changing its shape, as a tensor with one element
// for each position of the axes from `axis` on; an absent one is `otherwise` everywhere. `type` is f32, f16 or bf16.
// Adds a constant where the form must change. Nothing where the operand varies along other axes, or the shape is not
// known.
std::optional<ir::ValueId> per_element(ir::Graph& graph, ir::ValueId operand, const ir::Dims& dims, std::size_t axis,
                                       DType type, float otherwise);
// The operand with one element per channel, where data is [N, channels, positions…]. Constants only.
std::optional<ir::ValueId> per_channel(ir::Graph& graph, ir::ValueId operand, const ir::Dims& dims, DType type,
                                       float otherwise);

}  // namespace tessera::passes
