// Makes a graph that shows a fault as small as it can.
#pragma once

#include <functional>

#include "support/random_graph.h"

namespace tessera::test {

// Whether a case shows the fault. Cases that it is asked about verify, and the reference evaluates them.
using ShowsFault = std::function<bool(const GraphCase&)>;

// Drops outputs, puts inputs and constants in the place of nodes, takes nodes out between values of one type, fixes
// symbolic dimensions and shrinks sizes, as long as the fault shows; asks about `most_questions` cases at most.
// `failing` shows it.
GraphCase shrink(GraphCase failing, const ShowsFault& shows_fault, int most_questions = 1500);

}  // namespace tessera::test
