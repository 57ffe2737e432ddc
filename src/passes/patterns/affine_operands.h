// Scales and shifts of normalisations as the operators take them.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace tessera::passes {

// A factor or term that broadcasts over data of shape `dims` without changing its shape, as one element for each of
// those from `axis` on; an absent one is `otherwise` everywhere. Of `type`: f32, f16 or bf16. Adds a constant where its
// form must change. Nothing where it has other elements, or the shape is not known.
std::optional<ir::ValueId> per_element(ir::Graph& graph, ir::ValueId operand, const ir::Dims& dims, std::size_t axis,
                                       DType type, float otherwise);
// The same with one element a channel, where data is [N, channels, positions…]. Constants only.
std::optional<ir::ValueId> per_channel(ir::Graph& graph, ir::ValueId operand, const ir::Dims& dims, DType type,
                                       float otherwise);

}  // namespace tessera::passes
