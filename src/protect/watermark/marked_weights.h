// The weights of a model that carry a watermark, in an order that does not depend on how a file stores them.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace tessera::protect {

// Whether dimensions of equal size, which the canonical order cannot tell apart, stand as in the file or reversed.
enum class TieOrder { as_stored, reversed };

// Values of one constant of rank 2 or more. The canonical order is that of the weight with its dimensions of size 1
// left out and the others sorted by size, the largest first: a convolution's OIHW and OHWI weights, and a matrix and
// its transpose, have equal values in it unless two sizes that changed places are equal.
struct MarkedWeight {
  ir::ValueId value;
  Shape canonical;            // the sorted sizes
  std::vector<float> values;  // canonical order
};

// Constants with at least 256 elements of a floating-point type, or of 8-bit integers where `with_integers`.
// Graphs of control flow are not looked into.
std::vector<ir::ValueId> markable_constants(const ir::Graph& graph, bool with_integers);

MarkedWeight read_weight(const ir::Graph& graph, ir::ValueId value, TieOrder ties);
// A constant of the type and shape of the original with the values of `weight`, which has TieOrder::as_stored.
Tensor stored_tensor(const Tensor& original, const MarkedWeight& weight);

}  // namespace tessera::protect
