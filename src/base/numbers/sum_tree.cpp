#include "base/numbers/sum_tree.h"

#include <algorithm>
#include <optional>

namespace tessera::base {

SumBlock SumBlock::of_rank(std::int64_t total, std::int64_t rank, std::int64_t ranks) {
  // The first `total % ranks` blocks have one more.
  const std::int64_t each = total / ranks, longer = total % ranks;
  return {rank * each + std::min(rank, longer), each + (rank < longer ? 1 : 0)};
}

template <typename Visit>
std::vector<SumNode> SumBlock::walk(const Visit& visit) const {
  std::vector<SumNode> live;  // from left to right
  for (std::int64_t leaf = first; leaf < first + count; ++leaf) {
    SumNode node{0, leaf, 0};
    SumAction action;
    while (!live.empty() && node.index % 2 == 1 && live.back().level == node.level &&
           live.back().index == node.index - 1) {
      action.added.push_back(live.back().slot);
      live.pop_back();
      node = {node.level + 1, node.index / 2, 0};
    }
    while (std::ranges::find(live, node.slot, &SumNode::slot) != live.end()) ++node.slot;
    action.stored = node.slot;
    live.push_back(node);
    visit(std::move(action));
  }
  return live;
}

std::vector<SumAction> SumBlock::actions() const {
  std::vector<SumAction> actions;
  walk([&](SumAction action) { actions.push_back(std::move(action)); });
  return actions;
}

std::vector<SumNode> SumBlock::nodes() const {
  return walk([](const SumAction&) {});
}

std::size_t SumBlock::slots() const {
  std::size_t slots = 0;
  walk([&](const SumAction& action) { slots = std::max(slots, action.stored + 1); });
  return slots;
}

namespace {

struct Folding {
  const std::vector<SumNode>& nodes;
  std::int64_t total;
  const std::function<void(std::size_t, std::size_t)>& add;

  // The number of the given node that holds the sum of (level, index), which the given nodes fill.
  std::optional<std::size_t> value(int level, std::int64_t index) const {
    if (index << level >= total) return std::nullopt;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].level == level && nodes[i].index == index) return i;
    }
    if (level == 0) return std::nullopt;
    const std::optional<std::size_t> left = value(level - 1, 2 * index), right = value(level - 1, 2 * index + 1);
    if (left && right) add(*left, *right);
    return left ? left : right;
  }
};

}  // namespace

std::size_t fold_sums(const std::vector<SumNode>& nodes, std::int64_t total,
                      const std::function<void(std::size_t, std::size_t)>& add) {
  int root = 0;
  while (std::int64_t{1} << root < total) ++root;
  return Folding{nodes, total, add}.value(root, 0).value_or(0);
}

}  // namespace tessera::base
