#include "share/capacity.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/error.h"

namespace tessera::share {
namespace {

// The p99 in seconds with so many devices. More devices are taken to be no worse; where a random load says otherwise
// for a few, the number found still suffices.
DevicesNeeded search(double most_p99_s, int most_devices, const std::function<double(int)>& p99_s) {
  DevicesNeeded needed;
  int too_few = 0;
  double p99_of_too_few = 0;
  for (int devices = 1;; devices = std::min(2 * devices, most_devices)) {
    needed.tried = devices;
    needed.p99_s = p99_s(devices);
    if (needed.p99_s <= most_p99_s) {
      needed.devices = devices;
      break;
    }
    too_few = devices;
    p99_of_too_few = needed.p99_s;
    if (devices == most_devices) return needed;
  }
  while (needed.devices - too_few > 1) {
    const int middle = too_few + (needed.devices - too_few) / 2;
    const double p99 = p99_s(middle);
    if (p99 <= most_p99_s) needed.devices = middle, needed.p99_s = p99;
    else too_few = middle, p99_of_too_few = p99;
  }
  needed.p99_fewer_s = p99_of_too_few;
  return needed;
}

bool comes_by_itself(const SimulatedJob& job) {
  return job.arrivals.kind != Arrivals::Kind::closed;
}

// The trace of one of the devices that the requests are dealt to.
Trace part_of(const Trace& trace, const std::vector<std::vector<std::int64_t>>& times, int device, int devices) {
  Trace part{.seed = trace.seed + static_cast<std::uint64_t>(device), .jobs = {}};
  for (std::size_t job = 0; job < trace.jobs.size(); ++job) {
    SimulatedJob own = trace.jobs[job];
    if (comes_by_itself(own)) {
      own.arrivals = {.kind = Arrivals::Kind::replay};
      for (std::size_t i = static_cast<std::size_t>(device); i < times[job].size();
           i += static_cast<std::size_t>(devices))
        own.arrivals.times_ns.push_back(times[job][i]);
      if (own.arrivals.times_ns.empty()) continue;  // there are more devices than requests
      own.arrivals.requests = static_cast<std::int64_t>(own.arrivals.times_ns.size());
    }
    part.jobs.push_back(std::move(own));
  }
  return part;
}

}  // namespace

DevicesNeeded devices_for_wait(ClusterOptions options, double most_p99_s) {
  return search(most_p99_s, kMostDevices, [&](int devices) {
    options.devices = devices;
    return simulate_cluster(options).p99_wait_s;
  });
}

DevicesNeeded devices_for_latency(const Trace& trace, const SharedDevice& device, std::string_view policy,
                                  double most_p99_s) {
  std::vector<std::vector<std::int64_t>> times;
  std::size_t most_requests = 0;
  Priority highest = Priority::background;
  for (std::size_t job = 0; job < trace.jobs.size(); ++job) {
    times.emplace_back();
    if (!comes_by_itself(trace.jobs[job])) continue;
    times.back() = arrival_times(trace.jobs[job].arrivals, trace.seed, job);
    most_requests = std::max(most_requests, times.back().size());
    highest = std::max(highest, trace.jobs[job].options.priority);
  }
  require(most_requests > 0, ErrorKind::invalid_argument,
          "no job of the trace has requests that come by themselves (arrivals = \"poisson\", \"bursts\" or "
          "\"replay\"), so that more devices would not make any of them faster");
  const int most_devices = static_cast<int>(std::min<std::size_t>(most_requests, kMostDevices));
  return search(most_p99_s, most_devices, [&](int devices) {
    double worst_s = 0;
    for (int index = 0; index < devices && worst_s <= most_p99_s; ++index) {
      const Trace part = part_of(trace, times, index, devices);
      const SimulationOutcome outcome = simulate(part, device, policy);
      for (std::size_t job = 0; job < part.jobs.size(); ++job) {
        if (!comes_by_itself(part.jobs[job]) || part.jobs[job].options.priority != highest) continue;
        worst_s = std::max(worst_s, static_cast<double>(outcome.jobs[job].p99_ns) * 1e-9);
        if (outcome.jobs[job].unserved > 0) worst_s = std::numeric_limits<double>::infinity();
      }
    }
    return worst_s;
  });
}

}  // namespace tessera::share
