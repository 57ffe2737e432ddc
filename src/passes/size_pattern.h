// How the sizes of a graph compare with each other and with the numbers in the model: what passes that weigh nothing
// decide by.
#pragma once

#include <cstdint>
#include <set>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// Equal for two graphs that differ in types and in folded constants alone if, of all that is used,
// - their dimensions, the contents of small integer constants, and the least and the largest number of other integer
//   constants (indices) have the same order among each other, beside such numbers in the model, and beside
//   `thresholds`,
// - the same of their values have equally many elements,
// - the same of their other folded constants are equal to each other, and each is the same in both, all of one number
// that is the same, or data in which passes find nothing
//   to recognise: int8, and float32 that is finite, has no number so low that it could mask a score, and is not all 0
//   and 1.
// `model_constants`: the storage of the constants that both graphs come with.
std::vector<std::int64_t> size_pattern(const ir::Graph& graph, const std::unordered_set<const void*>& model_constants,
                                       const std::set<std::int64_t>& thresholds);

}  // namespace tessera::passes
