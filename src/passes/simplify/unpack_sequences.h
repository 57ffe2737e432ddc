// Replaces sequences of tensors whose elements are known by these elements.
#pragma once

#include "ir/graph.h"

namespace tessera::passes {

// Replaces sequences by tensors: where the number of tensors in a sequence is known, SequenceAt at a constant position
// becomes the tensor there, ConcatFromSequence a Concat, SequenceLength a constant, and SplitToSequence a Split. Other
// uses stay. The graph's types must have been inferred; those of new values are.
ir::Graph unpack_sequences(ir::Graph graph);

}  // namespace tessera::passes
