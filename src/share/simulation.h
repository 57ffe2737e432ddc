// Jobs that share a device in virtual time, under the code that decides in a process (scheduler.h). The device is a
// model: steps that compute at once slow each other where they ask for more of a part of it than there is
// (Demand::slowdown), steps whose data others have driven out of the caches take as long as they say, and nothing else
// takes time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "share/policy.h"

namespace tessera::share {

struct SimulatedStep {
  std::int64_t ns = 0;  // alone
  Demand demand;
  std::int64_t cold_ns = 0;  // alone, of a step that is cold; 0: the same
};

// A step is cold where, since the job's last run came to it, other jobs computed for kSweptNs, or the job did not
// compute for kRestedNs, in which its cores' clocks, caches and waiting threads went to rest.
inline constexpr std::int64_t kSweptNs = 200'000, kRestedNs = 3'000'000;

// When the requests of a job are there.
struct Arrivals {
  // closed: the next request comes `wait_ns` after the last one has ended, as in training (the wait is for data).
  // poisson: with `rate` per second, independent of each other. bursts: `burst` at once, the bursts as in poisson, so
  // that the rate is the same. replay: at `times_ns`.
  enum class Kind : std::uint8_t { closed, poisson, bursts, replay };
  Kind kind = Kind::closed;
  std::int64_t requests = 1;
  std::int64_t start_ns = 0;
  std::int64_t wait_ns = 0;
  double rate = 0;
  std::int64_t burst = 1;
  std::vector<std::int64_t> times_ns;  // ascending
};
// In ascending order, of a kind that is not closed; random numbers are those of Philox(seed, stream).
std::vector<std::int64_t> arrival_times(const Arrivals& arrivals, std::uint64_t seed, std::uint64_t stream);

struct SimulatedJob {
  JobOptions options;
  std::string model;  // for people
  std::vector<SimulatedStep> steps;
  Arrivals arrivals;
  double claim = 1;  // predicted durations are so many times the true ones: 1 is honest
};

struct Trace {
  std::uint64_t seed = 0;
  std::vector<SimulatedJob> jobs;
};

struct SharedDevice {
  std::string name;
  std::int64_t memory_bytes = 0;  // 0: not bounded
  bool preempts = false;          // see DeviceState
};

struct JobOutcome {
  std::string name;
  Priority priority = Priority::standard;
  std::int64_t runs = 0, unserved = 0;  // unserved: the policy never let them begin
  std::int64_t first_arrival_ns = 0, end_ns = 0;
  std::int64_t device_ns = 0, alone_ns = 0;          // alone_ns: of its runs one after the other on an idle device
  double mean_queueing_ns = 0;                       // from a request's arrival to its first step
  std::int64_t p50_ns = 0, p99_ns = 0, most_ns = 0;  // latency, from arrival to end
  std::int64_t goal_misses = 0;

  std::int64_t completion_ns() const { return end_ns - first_arrival_ns; }
};

// The device was the job's, without a pause, from begin to end.
struct Segment {
  int job = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
};

struct SimulationOutcome {
  std::string policy;
  std::vector<JobOutcome> jobs;  // as in the trace
  std::int64_t makespan_ns = 0;  // from the first arrival to the last end
  std::int64_t busy_ns = 0;      // at least one step computed
  std::int64_t peak_memory_bytes = 0;
  // Jain's index (Jain, Chiu, Hawe, DEC-TR-301, 1984) of device time over weight when the first job ended: 1 is even,
  // 1 / jobs is all for one.
  double fairness = 1;
  std::vector<Segment> timeline;  // in order of their ends, the first kMostSegments

  double use() const { return makespan_ns > 0 ? static_cast<double>(busy_ns) / static_cast<double>(makespan_ns) : 0; }
};
inline constexpr std::size_t kMostSegments = 200'000;

// The value below which `part` (0 to 1) of the ascending values lie: the nearest rank. 0 of none.
std::int64_t percentile(const std::vector<std::int64_t>& ascending, double part);

// Throws Error(invalid_argument) for an unknown policy and for jobs without steps.
SimulationOutcome simulate(const Trace& trace, const SharedDevice& device, std::string_view policy);

}  // namespace tessera::share
