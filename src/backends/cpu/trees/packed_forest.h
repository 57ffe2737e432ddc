// A decision forest laid out for walks of many rows or many trees at once.
//
// A node is 8 bytes: the split, and one word of the feature, flags and the place of its children in the tree, which
// are neighbours. All comparisons become x <= split, which leads to the second child: x < s is x <= the next number
// below s, and others exchange the children. A leaf leads to itself: its split is NaN, whose payload is its number.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/classical/tree_ensemble.h"

namespace tessera::backends::cpu {

// The nodes of a tree's first levels in the order of a heap, where vectors hold them: the children of node i are
// 2i + 1 and 2i + 2. A leaf above the last level stands for its descendants as well.
struct TreeTop {
  static constexpr std::size_t kNodes = 15;
  alignas(64) std::array<float, kNodes + 1> splits;
  std::array<std::uint32_t, kNodes + 1> words;       // of nodes, without their children
  std::array<std::uint32_t, 2 * kNodes + 2> places;  // in the tree: of heap nodes and of the level below
};

struct PackedForest {
  struct Tree {
    std::uint32_t first_node = 0, first_leaf = 0;
    bool few_levels = false, very_few_levels = false;  // no more than four or three levels of comparisons
  };
  static constexpr std::uint32_t kLeafNumbers = (1u << 22) - 1;  // the payload of a leaf's NaN
  static constexpr std::size_t kPadding = 64;                    // roots behind the last one, so that vectors are whole

  // Bits of a word from the lowest: the feature, `missing` and `equal` where the forest has any, the children.
  std::uint32_t feature_mask = 0, missing = 0, equal = 0, child_shift = 0;
  std::vector<std::uint64_t> nodes;  // the split in the low half
  std::vector<Tree> trees;
  std::vector<TreeTop> tops;         // one a tree
  std::vector<std::uint32_t> roots;  // first_node of each tree, padded
  std::vector<std::size_t> leaves;   // the forest's leaf that each packed one stands for
  double levels = 0;                 // comparisons on the way to a leaf, on average over leaves
};

// Why a forest of such a size cannot be packed, or "". `nodes`: most nodes of comparison in a tree, and of all trees.
std::string packing_fault(std::int64_t nodes_of_tree, std::int64_t all_nodes, std::int64_t trees,
                          std::int64_t features);
// For forests without tests of membership and without a packing_fault.
PackedForest pack_forest(const ops::Forest& forest);

// The largest float32 number that is no greater than `value`; NaN for NaN. Denormal numbers are kept whatever the
// floating-point state is.
float float_below_or_equal(double value);

}  // namespace tessera::backends::cpu
