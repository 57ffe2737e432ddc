// Walks down the trees of a packed forest, many walks step by step together.
#pragma once

#include <cstdint>

#include "backends/cpu/trees/packed_forest.h"

namespace tessera::backends::cpu {

// Leaves are written in whole vectors: up to this many elements behind the last one.
inline constexpr std::int64_t kWalkPadding = 64;

// Finds the leaf that each of `rows` rows of `columns` numbers reaches in one tree, numbered from the first leaf of the
// tree. rows * columns < 2^31.
void walk_rows(const PackedForest& forest, std::size_t tree, const float* x, std::int64_t columns, std::int64_t rows,
               std::int32_t* leaves);
// Finds the leaf that one row reaches in each of `count` trees, from tree `first` on, numbered from the first leaf of
// its tree.
void walk_trees(const PackedForest& forest, std::size_t first, std::int64_t count, const float* x,
                std::int32_t* leaves);

}  // namespace tessera::backends::cpu
