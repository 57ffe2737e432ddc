// Walks down the trees of a packed forest, one step of many walks at once.
#pragma once

#include <cstdint>

#include "backends/cpu/trees/packed_forest.h"

namespace tessera::backends::cpu {

// Leaves are written in whole vectors: up to so many behind the last one.
inline constexpr std::int64_t kWalkPadding = 64;

// The leaf that each of `rows` rows of `columns` numbers reaches in one tree, numbered from the first one of the tree.
// rows * columns < 2^31.
void walk_rows(const PackedForest& forest, std::size_t tree, const float* x, std::int64_t columns, std::int64_t rows,
               std::int32_t* leaves);
// The leaf that one row reaches in each of `count` trees from the first one on, numbered from the first one of its
// tree.
void walk_trees(const PackedForest& forest, std::size_t first, std::int64_t count, const float* x,
                std::int32_t* leaves);

}  // namespace tessera::backends::cpu
