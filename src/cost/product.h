// The sizes of the matrix products that nodes are.
#pragma once

#include <optional>

#include "cost/work.h"

namespace tessera::cost {

// The sizes of the node's product; nothing where the node is not a product, or is several of different sizes
// (attention, recurrent nets). A convolution with one channel per group is not one: vector units compute it.
std::optional<Product> product_of(const ir::Graph& graph, const ops::NodeView& view);

}  // namespace tessera::cost
