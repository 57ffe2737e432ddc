// How many devices a load needs: a search over the simulations.
#pragma once

#include <cstdint>
#include <string_view>

#include "share/cluster.h"
#include "share/simulation.h"

namespace tessera::share {

struct DevicesNeeded {
  int devices = 0;         // the fewest that suffice; 0: no number does
  double p99_s = 0;        // with them; without a number, with as many as were tried
  double p99_fewer_s = 0;  // with one device less; 0 where one suffices
  int tried = 0;           // the most devices that were tried
};

inline constexpr int kMostDevices = 1 << 16;

// The fewest devices with which the 99th percentile of the time that jobs wait for a place is at most so long. The
// options' number of devices is not heeded; nodes are as large as they say. Throws as simulate_cluster does.
DevicesNeeded devices_for_wait(ClusterOptions options, double most_p99_s);

// The fewest devices, each of which is shared under the policy, with which the 99th percentile of the latency of the
// most important jobs whose requests come by themselves is at most so long on every device. Requests of each job are
// dealt to the devices in turn; jobs that ask for their next request themselves (closed) have a copy on each device.
// Throws Error(invalid_argument) as simulate does, and for a trace without requests that come by themselves.
DevicesNeeded devices_for_latency(const Trace& trace, const SharedDevice& device, std::string_view policy,
                                  double most_p99_s);

}  // namespace tessera::share
