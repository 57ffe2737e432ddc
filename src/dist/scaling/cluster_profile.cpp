#include "dist/scaling/cluster_profile.h"

#include <algorithm>

#include "base/edit_distance.h"
#include "base/error.h"
#include "dist/scaling/checked_toml.h"
#include "dist/scaling/cluster_texts.h"
#include "io/file.h"

namespace tessera::dist {
namespace {

constexpr double kMicro = 1e-6, kGigabyte = 1e9;

LinkCost read_link(io::TomlTable& link, const std::string& place) {
  return {bounded_number(link, place, "latency_us", 0, 1e6) * kMicro,
          bounded_number(link, place, "bandwidth_gb_s", 1e-6, 1e6) * kGigabyte};
}

// The name of a built-in cluster that was misspelt as `name`, or "".
std::string_view similar_cluster(std::string_view name) {
  constexpr std::size_t most_bytes = 50, most_mistakes = 2;
  if (name.size() > most_bytes) return "";
  for (const ClusterProfile& cluster : built_in_clusters()) {
    if (base::edit_distance(name, cluster.name) <= most_mistakes) return cluster.name;
  }
  return "";
}

}  // namespace

ClusterProfile parse_cluster_profile(std::string_view text, const std::string& where) {
  io::TomlTable file = io::TomlTable::parse(text, where);
  ClusterProfile cluster;
  cluster.name = required_text(file, where, "name");
  cluster.title = file.text("title", cluster.name);
  cluster.sources = file.texts("sources");
  const std::string device = required_text(file, where, "device");
  const cost::DeviceProfile* profile = cost::find_built_in_profile(device);
  require(profile != nullptr, ErrorKind::invalid_argument,
          "{}: there is no device '{}'; 'tessera explain --help' lists them", where, device);
  cluster.device = *profile;

  io::TomlTable node = file.table("node"), network = file.table("network"), step = file.table("step");
  const std::string node_place = where + " [node]", network_place = where + " [network]",
                    step_place = where + " [step]";
  cluster.gpus_per_node = bounded_whole(node, node_place, "gpus", 1, 1024);
  cluster.node_link = read_link(node, node_place);
  cluster.network_link = read_link(network, network_place);
  cluster.switch_radix = bounded_whole(network, network_place, "switch_radix", 2, 1 << 16, 0);
  cluster.kernel_seconds = bounded_number(step, step_place, "kernel_us", 0, 1e6) * kMicro;
  cluster.recurrent_step_seconds = bounded_number(step, step_place, "recurrent_step_us", 0, 1e6) * kMicro;
  cluster.launch_seconds = bounded_number(step, step_place, "launch_us", 0, 1e6) * kMicro;
  file.check_all_read();
  return cluster;
}

std::span<const ClusterProfile> built_in_clusters() {
  static const std::vector<ClusterProfile> clusters = [] {
    std::vector<ClusterProfile> list;
    for (const char* text : cluster_texts()) list.push_back(parse_cluster_profile(text, "built-in cluster"));
    return list;
  }();
  return clusters;
}

ClusterProfile load_cluster(const std::string& name_or_path) {
  const auto clusters = built_in_clusters();
  if (const auto found = std::ranges::find(clusters, name_or_path, &ClusterProfile::name); found != clusters.end())
    return *found;
  if (!name_or_path.ends_with(".toml")) {
    std::string names;
    for (const ClusterProfile& cluster : clusters) names += (names.empty() ? "" : ", ") + cluster.name;
    const std::string_view similar = similar_cluster(name_or_path);
    fail(ErrorKind::invalid_argument, "there is no cluster '{}'; there are {}, and any .toml file{}", name_or_path,
         names, similar.empty() ? "" : fmt::format("; did you mean '{}'?", similar));
  }
  return parse_cluster_profile(read_small_file(name_or_path), name_or_path);
}

std::string read_small_file(const std::string& path) {
  const std::vector<std::byte> bytes = io::read_file(path, std::int64_t{1} << 20);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace tessera::dist
