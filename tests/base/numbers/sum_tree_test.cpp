#include "base/numbers/sum_tree.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::base::sum_tree_test {
namespace {

// The sum of a block as text, which shows the order of the additions.
std::vector<std::string> sums_of(const SumBlock& block) {
  std::vector<std::string> slots(block.slots());
  std::int64_t leaf = block.first;
  for (const SumAction& action : block.actions()) {
    std::string carried = std::to_string(leaf++);
    for (const std::size_t slot : action.added) carried = "(" + slots[slot] + "+" + carried + ")";
    slots[action.stored] = carried;
  }
  std::vector<std::string> sums;
  for (const SumNode& node : block.nodes()) sums.push_back(slots[node.slot]);
  return sums;
}

std::string total_of(std::int64_t total, std::int64_t ranks) {
  std::vector<SumNode> nodes;
  std::vector<std::string> values;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const SumBlock block = SumBlock::of_rank(total, rank, ranks);
    for (const SumNode& node : block.nodes()) nodes.push_back(node);
    for (std::string& sum : sums_of(block)) values.push_back(std::move(sum));
  }
  const std::size_t result = fold_sums(nodes, total, [&](std::size_t left, std::size_t right) {
    values[left] = "(" + values[left] + "+" + values[right] + ")";
  });
  return values[result];
}

TEST(SumTree, IsABinaryTreeOverTheMicroBatches) {
  EXPECT_EQ(total_of(1, 1), "0");
  EXPECT_EQ(total_of(3, 1), "((0+1)+2)");
  EXPECT_EQ(total_of(4, 1), "((0+1)+(2+3))");
  EXPECT_EQ(total_of(7, 1), "(((0+1)+(2+3))+((4+5)+6))");
}

TEST(SumTree, IsTheSameForAnyNumberOfRanks) {
  for (std::int64_t total = 1; total <= 40; ++total) {
    const std::string expected = total_of(total, 1);
    for (std::int64_t ranks = 2; ranks <= total; ++ranks) ASSERT_EQ(total_of(total, ranks), expected) << ranks;
  }
}

TEST(SumTree, NeedsFewBuffers) {
  EXPECT_EQ((SumBlock{0, 1}.slots()), 1u);
  EXPECT_EQ((SumBlock{0, 64}.slots()), 6u);
  EXPECT_EQ((SumBlock{64, 64}.nodes().size()), 1u);
  EXPECT_EQ((SumBlock{1, 3}.nodes().size()), 2u);
}

}  // namespace
}  // namespace tessera::base::sum_tree_test
