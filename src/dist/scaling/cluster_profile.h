// Clusters of GPUs as data: src/dist/scaling/clusters/*.toml are part of the program; users can add files of their own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/profile.h"

namespace tessera::dist {

// A level of the network as one GPU sees it: a message of n bytes takes latency_seconds + n / bytes_per_second.
struct LinkCost {
  double latency_seconds = 0, bytes_per_second = 0;
};

struct ClusterProfile {
  std::string name, title;  // "dgxa100", "NVIDIA DGX A100 …"
  std::vector<std::string> sources;
  cost::DeviceProfile device;
  std::int64_t gpus_per_node = 1;
  LinkCost node_link, network_link;   // within a node; between nodes, the share of one GPU
  std::int64_t switch_radix = 0;      // ports of a switch that adds (SHARP); 0: the switches do not add
  double kernel_seconds = 0;          // the least time of a kernel on a batch of a few samples, in a captured step
  double recurrent_step_seconds = 0;  // the least time of one step of a recurrence
  double launch_seconds = 0;          // for the host to launch a kernel where steps are not captured
};

inline constexpr std::int64_t kMostGpus = std::int64_t{1} << 20;

std::span<const ClusterProfile> built_in_clusters();  // sorted by name

// Parses TOML text; `where` names it in errors. Throws Error(invalid_argument) that says what is missing or wrong.
ClusterProfile parse_cluster_profile(std::string_view text, const std::string& where);
// Loads a cluster by the name of a built-in one or by the path of a .toml file. Throws Error: invalid_argument (listing
// the names), not_found, io, over_budget.
ClusterProfile load_cluster(const std::string& name_or_path);

// Reads a small text file, of at most 1 MiB. Throws Error: not_found, io, over_budget.
std::string read_small_file(const std::string& path);

}  // namespace tessera::dist
