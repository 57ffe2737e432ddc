// The matrix products that operators are.
#pragma once

#include <optional>

#include "cost/work.h"

namespace tessera::cost {

// Sizes of the product that the node is; nothing where it is none, or several unlike ones (attention, recurrent nets).
// A convolution that has a channel for each group is none: it is done by vector units.
std::optional<Product> product_of(const ir::Graph& graph, const ops::NodeView& view);

}  // namespace tessera::cost
