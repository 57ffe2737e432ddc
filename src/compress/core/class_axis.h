// Where the classes are in a model's scores.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace tessera::compress {

// The axis of the value along which scores of classes lie: that of the Softmax, convolution or product that makes them,
// through what is computed element by element or moves axes in between. Where none of these tells it, axis 1 of four
// and more axes, as of images, and else the last. Nothing for a value of unknown rank or of one axis.
std::optional<std::size_t> class_axis(const ir::Graph& graph, ir::ValueId value);

}  // namespace tessera::compress
