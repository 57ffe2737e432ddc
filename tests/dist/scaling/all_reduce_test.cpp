// The costs of collectives against their formulas, worked out by hand.
#include "dist/scaling/all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"

namespace tessera::dist::all_reduce_test {
namespace {

constexpr LinkCost kLink{2e-6, 1e9};

// Two GPUs a node; the network has a tenth of the node's speed and five times its latency.
ClusterProfile small_cluster(std::int64_t radix = 0) {
  ClusterProfile cluster;
  cluster.name = "small";
  cluster.gpus_per_node = 2;
  cluster.node_link = {1e-6, 10e9};
  cluster.network_link = {5e-6, 1e9};
  cluster.switch_radix = radix;
  return cluster;
}

double seconds(std::int64_t gpus, double bytes, AllReduceAlgorithm algorithm, std::int64_t radix = 0) {
  return all_reduce_cost(small_cluster(radix), gpus, bytes, algorithm).seconds;
}

TEST(AllReduce, FormulasOfOneLevel) {
  EXPECT_DOUBLE_EQ(one_shot_seconds(4, 1e6, kLink), 2e-6 + 3 * 1e-3);
  EXPECT_DOUBLE_EQ(ring_seconds(4, 1e6, kLink), 6 * 2e-6 + 1.5 * 1e-3);
  EXPECT_DOUBLE_EQ(tree_seconds(4, 1e6, kLink), 4 * 2e-6 + 2e-3);
  EXPECT_DOUBLE_EQ(tree_seconds(5, 1e6, kLink), 6 * 2e-6 + 2e-3);  // ⌈log2 5⌉ = 3
  EXPECT_DOUBLE_EQ(in_network_seconds(4, 1e6, kLink, 2), 4 * 2e-6 + 1e-3);
  EXPECT_DOUBLE_EQ(in_network_seconds(33, 1e6, kLink, 32), 4 * 2e-6 + 1e-3);
  EXPECT_DOUBLE_EQ(in_network_seconds(32, 1e6, kLink, 32), 2 * 2e-6 + 1e-3);
  for (const double alone : {one_shot_seconds(1, 1e6, kLink), ring_seconds(1, 1e6, kLink), tree_seconds(1, 1e6, kLink),
                             in_network_seconds(1, 1e6, kLink, 8)})
    EXPECT_EQ(alone, 0);
}

TEST(AllReduce, LevelsOfACluster) {
  // Two messages in a row within the node, six between four nodes, where each GPU sums half of the data: the network
  // is the slower level.
  EXPECT_DOUBLE_EQ(seconds(8, 1e6, AllReduceAlgorithm::ring), 14 * 5e-6 + 1.75 * 1e6 / 2e9);
  EXPECT_DOUBLE_EQ(seconds(8, 2e4, AllReduceAlgorithm::hierarchical), 2e-6 + 4 * 5e-6 + 2 * 1e4 / 1e9);  // a tree
  EXPECT_DOUBLE_EQ(seconds(8, 1e6, AllReduceAlgorithm::hierarchical), 2e-6 + 6 * 5e-6 + 1.5 * 0.5e6 / 1e9);
  EXPECT_DOUBLE_EQ(seconds(8, 1e6, AllReduceAlgorithm::in_network, 4), 2e-6 + 2 * 5e-6 + 0.5e6 / 1e9);
  // With a faster network, the node is the slower level.
  ClusterProfile fast = small_cluster();
  fast.network_link.bytes_per_second = 1e12;
  EXPECT_NEAR(all_reduce_cost(fast, 8, 1e6, AllReduceAlgorithm::hierarchical).seconds, 2e-6 + 4 * 5e-6 + 1e6 / 10e9,
              1e-12);
  // Flat: a tree of eight uses both network cards of a node; one-shot sends everything by the card of its GPU.
  EXPECT_DOUBLE_EQ(seconds(8, 1e6, AllReduceAlgorithm::tree), 6 * 5e-6 + 2 * 1e6 / 2e9);
  EXPECT_DOUBLE_EQ(seconds(8, 1e6, AllReduceAlgorithm::one_shot), 5e-6 + 7 * 1e6 / 1e9);
  // One node has one level.
  EXPECT_DOUBLE_EQ(seconds(2, 1e6, AllReduceAlgorithm::ring), 2e-6 + 1e6 / 10e9);
  EXPECT_DOUBLE_EQ(seconds(2, 1e6, AllReduceAlgorithm::hierarchical), 1e-6 + 1e6 / 10e9);  // one-shot is the fastest
  EXPECT_EQ(seconds(1, 1e6, AllReduceAlgorithm::ring), 0);
}

TEST(AllReduce, TheFastestIsNeverSlowerThanAnother) {
  for (const std::int64_t gpus : {1, 2, 4, 16, 1024}) {
    for (const double bytes : {1.0, 1e4, 1e6, 1e9}) {
      const AllReduceCost best = all_reduce_cost(small_cluster(8), gpus, bytes, std::nullopt);
      double least = 1e9;
      for (const AllReduceAlgorithm algorithm :
           {AllReduceAlgorithm::one_shot, AllReduceAlgorithm::ring, AllReduceAlgorithm::tree,
            AllReduceAlgorithm::hierarchical, AllReduceAlgorithm::in_network})
        least = std::min(least, seconds(gpus, bytes, algorithm, 8));
      EXPECT_DOUBLE_EQ(best.seconds, least) << gpus << " GPUs, " << bytes << " bytes";
      EXPECT_DOUBLE_EQ(seconds(gpus, bytes, best.algorithm, 8), least);
    }
  }
  EXPECT_EQ(all_reduce_cost(small_cluster(8), 1024, 1e9, std::nullopt).algorithm, AllReduceAlgorithm::in_network);
}

TEST(AllReduce, AllToAllSendsEachGpuItsShare) {
  EXPECT_EQ(all_to_all_seconds(small_cluster(), 1, 1e6), 0);
  EXPECT_DOUBLE_EQ(all_to_all_seconds(small_cluster(), 2, 1e6), 1e-6 + 0.5e6 / 10e9);
  EXPECT_DOUBLE_EQ(all_to_all_seconds(small_cluster(), 8, 1e6), 5e-6 + 6 * 0.125e6 / 1e9);
}

TEST(AllReduce, NamesAndFaults) {
  for (const char* name : {"one-shot", "ring", "tree", "hierarchical", "in-network"})
    EXPECT_EQ(name_of(*parse_all_reduce_algorithm(name)), name);
  EXPECT_FALSE(parse_all_reduce_algorithm("fastest"));
  test::expect_error_containing(ErrorKind::invalid_argument, "the switches of cluster 'small' do not add",
                                [] { seconds(8, 1e6, AllReduceAlgorithm::in_network); });
}

}  // namespace
}  // namespace tessera::dist::all_reduce_test
