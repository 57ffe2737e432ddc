// Equality of parts of a graph; that of whole graphs is structurally_equal() of graph.h.
#pragma once

#include "ir/attribute.h"

namespace tessera::ir {

// Equal names, kinds and values: numbers and tensors bitwise, subgraphs structurally.
bool equal_attributes(const Attributes& a, const Attributes& b);

}  // namespace tessera::ir
