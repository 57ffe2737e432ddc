// Sequences of tensors whose elements are known, in favour of these elements.
#pragma once

#include "ir/graph.h"

namespace tessera::passes {

// Puts tensors in place of sequences: where it is known how many tensors a sequence has, SequenceAt at a constant
// position becomes the tensor there, ConcatFromSequence a Concat, SequenceLength a constant, and SplitToSequence a
// Split. What is asked in another way stays. The graph's types must have been inferred; those of new values are.
ir::Graph unpack_sequences(ir::Graph graph);

}  // namespace tessera::passes
