#include "dist/scaling/all_reduce.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace tessera::dist {
namespace {

constexpr std::pair<AllReduceAlgorithm, std::string_view> kAlgorithmNames[] = {
    {AllReduceAlgorithm::one_shot, "one-shot"},
    {AllReduceAlgorithm::ring, "ring"},
    {AllReduceAlgorithm::tree, "tree"},
    {AllReduceAlgorithm::hierarchical, "hierarchical"},
    {AllReduceAlgorithm::in_network, "in-network"},
};

// The least k with base^k >= count.
double levels(std::int64_t count, std::int64_t base) {
  double k = 0;
  for (std::int64_t reached = 1; reached < count; reached *= base) ++k;
  return k;
}

AllReduceCost faster(const AllReduceCost& a, const AllReduceCost& b) {
  return b.seconds < a.seconds ? b : a;
}

// All ranks in one row, whatever node they are in. Rings and trees run through every network card of a node at once.
AllReduceCost flat_cost(const ClusterProfile& cluster, std::int64_t gpus, double bytes, AllReduceAlgorithm algorithm) {
  LinkCost link = gpus <= cluster.gpus_per_node ? cluster.node_link : cluster.network_link;
  if (algorithm == AllReduceAlgorithm::one_shot) return {one_shot_seconds(gpus, bytes, link), algorithm};
  if (gpus > cluster.gpus_per_node)
    link.bytes_per_second = std::min(cluster.node_link.bytes_per_second,
                                     link.bytes_per_second * static_cast<double>(cluster.gpus_per_node));
  const bool ring = algorithm == AllReduceAlgorithm::ring;
  return {ring ? ring_seconds(gpus, bytes, link) : tree_seconds(gpus, bytes, link), algorithm};
}

AllReduceCost fastest_flat_cost(const ClusterProfile& cluster, std::int64_t gpus, double bytes) {
  return faster(faster(flat_cost(cluster, gpus, bytes, AllReduceAlgorithm::one_shot),
                       flat_cost(cluster, gpus, bytes, AllReduceAlgorithm::ring)),
                flat_cost(cluster, gpus, bytes, AllReduceAlgorithm::tree));
}

// Each GPU of a node sums a part of the data over the nodes, by its own share of the network. The levels work on
// different chunks at a time: their latencies add, and the slower one determines the rest.
AllReduceCost by_levels(const ClusterProfile& cluster, std::int64_t gpus, double bytes, AllReduceAlgorithm algorithm) {
  const std::int64_t local = cluster.gpus_per_node, nodes = gpus / local;
  const LinkCost& network = cluster.network_link;
  // Reduce-scatter and all-gather within the node cost together what an all-reduce around its ring does.
  const auto within = [&](double data) { return ring_seconds(local, data, cluster.node_link); };
  const auto with = [&](auto between) {
    const double none = within(0) + between(0.0), part = bytes / static_cast<double>(local);
    return none + std::max(within(bytes) - within(0), between(part) - between(0.0));
  };
  if (algorithm == AllReduceAlgorithm::in_network)
    return {with([&](double part) { return in_network_seconds(nodes, part, network, cluster.switch_radix); }),
            algorithm};
  return {std::min(with([&](double part) { return ring_seconds(nodes, part, network); }),
                   with([&](double part) { return tree_seconds(nodes, part, network); })),
          algorithm};
}

}  // namespace

double one_shot_seconds(std::int64_t ranks, double bytes, const LinkCost& link) {
  if (ranks == 1) return 0;
  return link.latency_seconds + static_cast<double>(ranks - 1) * bytes / link.bytes_per_second;
}

double ring_seconds(std::int64_t ranks, double bytes, const LinkCost& link) {
  const auto p = static_cast<double>(ranks);
  return 2 * (p - 1) * link.latency_seconds + 2 * (p - 1) / p * bytes / link.bytes_per_second;
}

double tree_seconds(std::int64_t ranks, double bytes, const LinkCost& link) {
  if (ranks == 1) return 0;
  return 2 * levels(ranks, 2) * link.latency_seconds + 2 * bytes / link.bytes_per_second;
}

double in_network_seconds(std::int64_t ranks, double bytes, const LinkCost& link, std::int64_t radix) {
  if (ranks == 1) return 0;
  return 2 * levels(ranks, radix) * link.latency_seconds + bytes / link.bytes_per_second;
}

std::string_view name_of(AllReduceAlgorithm algorithm) {
  return std::ranges::find(kAlgorithmNames, algorithm, &std::pair<AllReduceAlgorithm, std::string_view>::first)->second;
}

std::optional<AllReduceAlgorithm> parse_all_reduce_algorithm(std::string_view name) {
  const auto* found =
      std::ranges::find(kAlgorithmNames, name, &std::pair<AllReduceAlgorithm, std::string_view>::second);
  return found == std::end(kAlgorithmNames) ? std::nullopt : std::optional(found->first);
}

AllReduceCost all_reduce_cost(const ClusterProfile& cluster, std::int64_t gpus, double bytes,
                              std::optional<AllReduceAlgorithm> algorithm) {
  require(algorithm != AllReduceAlgorithm::in_network || cluster.switch_radix > 0, ErrorKind::invalid_argument,
          "the switches of cluster '{}' do not add: it has no network.switch_radix; choose another all-reduce",
          cluster.name);
  const bool any = !algorithm, one_node = gpus <= cluster.gpus_per_node;
  if (!any && *algorithm < AllReduceAlgorithm::hierarchical) return flat_cost(cluster, gpus, bytes, *algorithm);
  if (one_node) return fastest_flat_cost(cluster, gpus, bytes);
  if (!any) return by_levels(cluster, gpus, bytes, *algorithm);
  const AllReduceCost best = faster(fastest_flat_cost(cluster, gpus, bytes),
                                    by_levels(cluster, gpus, bytes, AllReduceAlgorithm::hierarchical));
  if (cluster.switch_radix == 0) return best;
  return faster(best, by_levels(cluster, gpus, bytes, AllReduceAlgorithm::in_network));
}

double all_to_all_seconds(const ClusterProfile& cluster, std::int64_t gpus, double bytes) {
  if (gpus == 1) return 0;
  const double share = bytes / static_cast<double>(gpus);  // for each GPU
  const std::int64_t local = std::min(gpus, cluster.gpus_per_node);
  const double within = static_cast<double>(local - 1) * share / cluster.node_link.bytes_per_second;
  if (gpus == local) return cluster.node_link.latency_seconds + within;
  const double between = static_cast<double>(gpus - local) * share / cluster.network_link.bytes_per_second;
  return cluster.network_link.latency_seconds + std::max(within, between);
}

}  // namespace tessera::dist
