#include "serve/core/operations/statistics.h"

#include <algorithm>
#include <chrono>

namespace tessera::serve {

void Statistics::succeeded(std::int64_t latency_ns, std::int64_t queue_ns, std::int64_t rows,
                           const ExecutionTimes& times) {
  const std::lock_guard lock(mutex_);
  count_success(latency_ns);
  sums_.queue.add(queue_ns);
  sums_.input.add(times.input_ns);
  sums_.infer.add(times.infer_ns);
  sums_.output.add(times.output_ns);
  sums_.inferences += static_cast<std::uint64_t>(rows);
}

// The caller holds the mutex.
void Statistics::count_success(std::int64_t latency_ns) {
  sums_.success.add(latency_ns);
  const double seconds = static_cast<double>(latency_ns) * 1e-9;
  sums_.latency_sum_s += seconds;
  const auto bucket = std::ranges::lower_bound(kLatencyBounds, seconds) - kLatencyBounds.begin();
  ++sums_.latencies[static_cast<std::size_t>(bucket)];
  if (recent_.size() < kKept) recent_.push_back(latency_ns);
  else recent_[next_++ % kKept] = latency_ns;
}

void Statistics::answered_from_cache(std::int64_t latency_ns, std::int64_t lookup_ns) {
  const std::lock_guard lock(mutex_);
  count_success(latency_ns);
  sums_.queue.add(0);
  sums_.cache_hit.add(lookup_ns);
}

void Statistics::missed_in_cache(std::int64_t cache_ns) {
  const std::lock_guard lock(mutex_);
  sums_.cache_miss.add(cache_ns);
}

void Statistics::reset() {
  const std::lock_guard lock(mutex_);
  sums_ = {};
  recent_.clear();
  next_ = 0;
}

void Statistics::failed(std::int64_t latency_ns, Reason reason) {
  const std::lock_guard lock(mutex_);
  sums_.fail.add(latency_ns);
  ++sums_.refused[reason];
}

void Statistics::executed(std::int64_t rows, const ExecutionTimes& times) {
  using std::chrono::system_clock;
  const std::lock_guard lock(mutex_);
  ++sums_.executions;
  sums_.last_inference_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch()).count());
  BatchStatistics& batch = sums_.batches[rows];
  batch.input.add(times.input_ns);
  batch.infer.add(times.infer_ns);
  batch.output.add(times.output_ns);
}

StatisticsSnapshot Statistics::snapshot() const {
  std::vector<std::int64_t> sorted;
  StatisticsSnapshot copy;
  {
    const std::lock_guard lock(mutex_);
    copy = sums_;
    sorted = recent_;
  }
  if (sorted.empty()) return copy;
  std::ranges::sort(sorted);
  copy.p50_ns = sorted[sorted.size() / 2];
  copy.p99_ns = sorted[std::min(sorted.size() - 1, sorted.size() * 99 / 100)];
  return copy;
}

}  // namespace tessera::serve
