// The order in which gradients of micro-batches are added: a binary tree over their numbers in the step, so that the
// sum has the same bits however the micro-batches are divided into contiguous blocks (ADR 0096).
//
// Node (level, index) is the sum of the micro-batches [index · 2^level, (index + 1) · 2^level): its value is that of
// its two children added, (level − 1, 2 · index) + (level − 1, 2 · index + 1), or that of the left one alone if the
// right one has no micro-batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tessera::base {

struct SumNode {
  int level = 0;
  std::int64_t index = 0;
  std::size_t slot = 0;  // of the buffer that holds the sum
  friend bool operator==(const SumNode&, const SumNode&) = default;
};

// The effect of adding one micro-batch: the sums in `added` are added to it, each as the left operand, and the
// result is stored in `stored`.
struct SumAction {
  std::vector<std::size_t> added;
  std::size_t stored = 0;
};

// A contiguous block of the micro-batches of a step.
struct SumBlock {
  std::int64_t first = 0, count = 1;

  // The block of a rank: blocks differ by at most one micro-batch.
  static SumBlock of_rank(std::int64_t total, std::int64_t rank, std::int64_t ranks);

  // The action for each micro-batch, in order.
  std::vector<SumAction> actions() const;
  // The sums that are left after the last one, from left to right: the largest nodes that the block fills.
  std::vector<SumNode> nodes() const;
  // The number of buffers that the actions use.
  std::size_t slots() const;

 private:
  template <typename Visit>
  std::vector<SumNode> walk(const Visit& visit) const;
};

// The order of the last additions: `add(left, right)` adds the value of node `right` to that of node `left`, numbers
// of `nodes`, which together are all micro-batches of [0, total). Returns the number of the node that holds the sum.
std::size_t fold_sums(const std::vector<SumNode>& nodes, std::int64_t total,
                      const std::function<void(std::size_t left, std::size_t right)>& add);

}  // namespace tessera::base
