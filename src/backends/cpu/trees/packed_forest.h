// A decision forest in a layout for walks of many rows or many trees at once.
//
// A node is 8 bytes: the split, and one word with the feature, flags and the position of its children in the tree,
// which are neighbours. All comparisons are converted to x <= split, which leads to the second child: x < s becomes x
// <= the next number below s, and negated comparisons exchange the children. A leaf leads to itself: its split is NaN,
// whose payload is the leaf's number.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/classical/tree_ensemble.h"

namespace tessera::backends::cpu {

// The nodes of a tree's first levels in heap order, to be held in vectors: the children of node i are 2i + 1 and 2i +
// 2. A leaf above the last level also takes the places of its descendants.
struct TreeTop {
  static constexpr std::size_t kNodes = 15;
  alignas(64) std::array<float, kNodes + 1> splits;
  std::array<std::uint32_t, kNodes + 1> words;       // of nodes, without their children
  std::array<std::uint32_t, 2 * kNodes + 2> places;  // in the tree: of heap nodes and of the level below
};

struct PackedForest {
  struct Tree {
    std::uint32_t first_node = 0, first_leaf = 0;
    bool few_levels = false, very_few_levels = false;  // at most four or three levels of comparisons
  };
  static constexpr std::uint32_t kLeafNumbers = (1u << 22) - 1;  // the payload of a leaf's NaN
  static constexpr std::size_t kPadding = 64;                    // roots behind the last one, to fill a vector

  // The fields of a word, from the lowest bit: the feature, `missing` and `equal` if the forest has any, the children.
  std::uint32_t feature_mask = 0, missing = 0, equal = 0, child_shift = 0;
  std::vector<std::uint64_t> nodes;  // the split in the low half
  std::vector<Tree> trees;
  std::vector<TreeTop> tops;         // one per tree
  std::vector<std::uint32_t> roots;  // first_node of each tree, padded
  std::vector<std::size_t> leaves;   // the forest's leaf for each packed leaf
  double levels = 0;                 // average number of comparisons to reach a leaf
};

// Returns why a forest of this size cannot be packed, or "". `nodes_of_tree` and `all_nodes`: comparison nodes of the
// largest tree, and of all trees.
std::string packing_fault(std::int64_t nodes_of_tree, std::int64_t all_nodes, std::int64_t trees,
                          std::int64_t features);
// Packs a forest without set-membership tests and without a packing_fault.
PackedForest pack_forest(const ops::Forest& forest);

// The largest float32 number that is not greater than `value`; NaN for NaN. Keeps denormal numbers, whatever the
// floating-point mode.
float float_below_or_equal(double value);

}  // namespace tessera::backends::cpu
