// The cost of collectives on clusters: a message takes α + bytes / β on each level of the network (Hockney, "The
// communication challenge for MPP", Parallel Computing 20(3), 1994; Thakur, Rabenseifner and Gropp, "Optimization of
// collective communication operations in MPICH", 2005). All times are in seconds, all sizes in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "dist/scaling/cluster_profile.h"

namespace tessera::dist {

// Costs of an all-reduce of `bytes` per rank among ranks >= 1 that are all connected alike; 0 for one rank.
// Each rank sends its data to all others: α + (p − 1) n / β.
double one_shot_seconds(std::int64_t ranks, double bytes, const LinkCost& link);
// Reduce-scatter and all-gather around a ring: 2 (p − 1) α + 2 (p − 1) / p · n / β.
double ring_seconds(std::int64_t ranks, double bytes, const LinkCost& link);
// Two pipelined binary trees, each with half of the data, up and down: 2 ⌈log2 p⌉ α + 2 n / β.
double tree_seconds(std::int64_t ranks, double bytes, const LinkCost& link);
// Switches of `radix` ports add the data on its way: 2 ⌈log_radix p⌉ α + n / β, since each rank sends and receives its
// data once.
double in_network_seconds(std::int64_t ranks, double bytes, const LinkCost& link, std::int64_t radix);

enum class AllReduceAlgorithm : std::uint8_t {
  one_shot,
  ring,
  tree,
  hierarchical,  // reduce-scatter within the node, ring or tree between nodes, all-gather within the node, in chunks
  in_network,    // likewise, with the switches' sums between nodes
};
std::string_view name_of(AllReduceAlgorithm algorithm);                               // "in-network"
std::optional<AllReduceAlgorithm> parse_all_reduce_algorithm(std::string_view name);  // nothing for other names

struct AllReduceCost {
  double seconds = 0;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::ring;
};

// The cost of an all-reduce of `bytes` per GPU by that algorithm, or by the fastest that the cluster has. Within one
// node, hierarchical and in-network mean the fastest of the other three. `gpus` >= 1; beyond one node they fill whole
// nodes. Throws Error(invalid_argument) for sums in the network where the switches of the cluster have none.
AllReduceCost all_reduce_cost(const ClusterProfile& cluster, std::int64_t gpus, double bytes,
                              std::optional<AllReduceAlgorithm> algorithm);

// The cost of an all-to-all in which each GPU has `bytes` for all GPUs together, itself included.
double all_to_all_seconds(const ClusterProfile& cluster, std::int64_t gpus, double bytes);

}  // namespace tessera::dist
