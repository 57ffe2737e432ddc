// Load on whatever answers requests: closed loops, and open loops whose requests come whether or not those before were
// answered. bench_load, bench_colocate and bench_serve_load use it.
//
// In an open loop the latency of a request counts from the moment at which it was due. Counting from when it was sent
// leaves out the wait of those that could not be sent because the answer before was late ("coordinated omission": G.
// Tene, "How NOT to Measure Latency", 2013), so that an answer of one second looks like one slow request instead of a
// thousand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "share/simulation.h"

namespace tessera::bench {

// A load as words of a command line:
//   closed COUNT                     each client sends its next request when its last one is answered
//   uniform COUNT RATE               every 1/RATE seconds
//   poisson COUNT RATE [SEED]        RATE a second, independent of each other
//   bursts COUNT RATE SIZE [SEED]    SIZE at once, the bursts as in poisson; RATE requests a second
//   replay FILE                      at the moments of a file, in ms, one a line
struct Load {
  bool is_closed = false;
  std::int64_t count = 0;
  std::vector<std::int64_t> due_ns;  // of an open loop: since its beginning, ascending
};
// Throws Error(invalid_argument) that lists the loads.
Load parse_load(const std::vector<std::string>& words);

// What became of the requests of a load. Times are in microseconds.
struct LoadResult {
  double seconds = 0;                             // from its beginning to the last answer
  std::map<std::int64_t, std::int64_t> outcomes;  // number of requests by what the client returned
  std::vector<double> latencies_us;               // of those with the good outcome, in the order in which they were due
  std::vector<double> lateness_us;                // of all: how much later than due each was sent, in an open loop
};

// A client's request, answered when it returns; what it returns counts the outcomes.
using Request = std::function<std::int64_t()>;

// `make_client` is called once for each of `clients` threads, which send the requests: at most so many are in flight.
// `good`: the outcome whose latencies count. Ends after `most_seconds` with what has been sent until then.
LoadResult run_load(const Load& load, int clients, const std::function<Request()>& make_client, std::int64_t good = 0,
                    double most_seconds = 1e9);

// The latencies: count, mean, percentiles up to 99.99, maximum.
nlohmann::json summary(const std::vector<double>& values_us);
// How many values lie in each of the bins that are not empty: [[upper end in µs, count], …], 16 bins for each factor of
// 2, so that a bin's ends are at most 6.3% apart.
nlohmann::json histogram(const std::vector<double>& values_us);

}  // namespace tessera::bench
