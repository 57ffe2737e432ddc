// Finds the axis of the classes in a model's scores.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace tessera::compress {

// The axis of the value along which the scores of classes lie. It is that of the Softmax, convolution or product that
// makes the scores, followed through operators that compute element by element or move axes. If none of these tells the
// axis, it is axis 1 for values of four or more axes, such as images, and else the last axis. Nothing for a value of
// unknown rank or of one axis.
std::optional<std::size_t> class_axis(const ir::Graph& graph, ir::ValueId value);

}  // namespace tessera::compress
