// Counts and times of a model's requests, by outcome.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "serve/protocol/failure.h"

namespace tessera::serve {

struct DurationSum {
  std::uint64_t count = 0, ns = 0;
  void add(std::int64_t duration_ns, std::uint64_t times = 1) {
    count += times;
    ns += static_cast<std::uint64_t>(duration_ns > 0 ? duration_ns : 0) * times;
  }
};

// Durations of one execution, which all requests of its batch share.
struct ExecutionTimes {
  std::int64_t input_ns = 0, infer_ns = 0, output_ns = 0;
};

struct BatchStatistics {
  DurationSum input, infer, output;
};

// Upper bounds of the histogram's buckets, in seconds; the last bucket has none.
inline constexpr std::array<double, 15> kLatencyBounds{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                                       0.2,    0.5,   1,     2,     5,    10,   30};

struct StatisticsSnapshot {
  DurationSum success, fail, queue, input, infer, output;  // of requests
  DurationSum cache_hit, cache_miss;                       // time for the cache of answers, where the model has one
  std::uint64_t inferences = 0, executions = 0;            // inferences: rows
  std::uint64_t last_inference_ms = 0;                     // since 1970
  std::map<std::int64_t, BatchStatistics> batches;         // by rows
  std::map<Reason, std::uint64_t> refused;                 // failed requests by their reason
  std::array<std::uint64_t, kLatencyBounds.size() + 1> latencies{};
  double latency_sum_s = 0;
  std::int64_t p50_ns = 0, p99_ns = 0;  // of the latest 2048 successful requests
  std::int64_t waiting = 0, running = 0;
};

// Thread-safe.
class Statistics {
 public:
  void succeeded(std::int64_t latency_ns, std::int64_t queue_ns, std::int64_t rows, const ExecutionTimes& times);
  void failed(std::int64_t latency_ns, Reason reason);
  // Counts as a success that was not computed.
  void answered_from_cache(std::int64_t latency_ns, std::int64_t lookup_ns);
  // The time to look up what was not there and to keep the answer.
  void missed_in_cache(std::int64_t cache_ns);
  void executed(std::int64_t rows, const ExecutionTimes& times);
  StatisticsSnapshot snapshot() const;
  // Sets the counters back, as if nothing had been counted.
  void reset();

 private:
  void count_success(std::int64_t latency_ns);

  static constexpr std::size_t kKept = 2048;
  mutable std::mutex mutex_;
  StatisticsSnapshot sums_;
  std::vector<std::int64_t> recent_;
  std::size_t next_ = 0;
};

}  // namespace tessera::serve
