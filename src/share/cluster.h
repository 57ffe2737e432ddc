// A cluster in virtual time: which placement serves a load of jobs with how much waiting. Jobs hold slices of a device
// (parts as a GPU's instances are, or whole devices) and are served in order of arrival.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::share {

enum class Placement : std::uint8_t {
  spread,       // the emptiest device
  pack,         // the fullest node that has a place, and there the fullest device
  best_fit,     // the device with the fewest free slices that suffice
  interference  // the device whose jobs ask for the least of its memory bandwidth
};

struct ClusterOptions {
  int nodes = 1, devices_per_node = 8, slices = 1;
  int devices = 0;  // of all nodes, the last of which may have fewer; 0: nodes times devices_per_node
  Placement placement = Placement::best_fit;
  std::uint64_t seed = 0;
  std::int64_t jobs = 1000;
  double jobs_per_hour = 100;
  // Arrivals are a Poisson process whose rate swings by this part about its mean, once in 24 hours.
  double diurnal = 0;
  double mean_seconds = 3600;
  // 0: durations are exponential. Above: log-normal with this deviation of the logarithm, as production clusters have
  // them (Hu et al., "Characterization and prediction of deep learning workloads in large-scale GPU datacenters",
  // SC 2021: most jobs are short, few long ones take most of the time).
  double heavy_tail = 0;
  int most_slices = 1;  // a job asks for 1 to so many, all equally likely
  // A job asks for its slices' part of the device's bandwidth times a number between 0 and twice this. Jobs of a device
  // slow each other where they ask together for more than all of it.
  double intensity = 0;
};

struct ClusterOutcome {
  std::int64_t jobs = 0, most_waiting = 0;
  double hours = 0, arrival_hours = 0;  // from the first arrival to the last end, and to the last arrival
  double mean_wait_s = 0, p50_wait_s = 0, p99_wait_s = 0;
  double waiting_share = 0;  // of jobs that did not begin at once
  // The part of all slices that is in use from the first arrival to the last one, and to the last end. The latter says
  // little of the cluster: the longest of the last jobs may have it to itself for long.
  double use = 0, use_to_the_end = 0;
  double mean_slowdown = 1;  // time in service over time alone
  // The work that jobs bring over the work that all slices can do, as the options say, with the slowdown that was seen.
  double offered_load = 0;
  bool is_overloaded() const { return offered_load >= 1; }
};

// Throws Error(invalid_argument) for sizes and rates that make no sense.
ClusterOutcome simulate_cluster(const ClusterOptions& options);

int device_count(const ClusterOptions& options);

Placement parse_placement(std::string_view name);  // "best_fit"; throws Error(invalid_argument)

// From the table [cluster] of TOML text, whose keys are the fields above; a field that is not there is as above. Throws
// Error(invalid_argument).
ClusterOptions parse_cluster(std::string_view text, const std::string& where);

}  // namespace tessera::share
