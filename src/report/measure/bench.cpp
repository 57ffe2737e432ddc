#include "report/measure/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/peak_memory.h"
#include "base/threads/thread_pool.h"
#include "report/values/json_text.h"
#include "tessera/error.h"

namespace tessera::report {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The smallest time that at least `fraction` of the runs do not exceed (nearest-rank percentile).
double percentile(const std::vector<double>& sorted, double fraction) {
  const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

double median(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// The milliseconds of each run. Sets `interrupted` if it was cancelled after the first one.
std::vector<double> timed_runs(Session& session, const NamedValues& inputs, const BenchOptions& options,
                               bool& interrupted) {
  std::vector<double> times;
  const Clock::time_point timed = Clock::now();
  try {
    do {
      const Clock::time_point begin = Clock::now();
      session.run(inputs, options.run);
      times.push_back(ms_since(begin));
    } while (static_cast<int>(times.size()) < options.runs || ms_since(timed) < options.seconds * 1e3);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled || times.empty()) throw;
    interrupted = true;
  }
  return times;
}

}  // namespace

BenchResult bench_model(const Model& model, double load_ms, const NamedValues& inputs, const BenchOptions& options) {
  BenchResult result;
  result.load_ms = load_ms;
  const int cores = base::ThreadPool::process().cores();
  result.threads = options.session.threads > 0 ? std::min(options.session.threads, cores) : cores;
  for (const auto& [name, value] : inputs) {
    result.shapes[name] = value.is_tensor()
                              ? std::string(name_of(value.tensor().dtype())) + to_string(value.tensor().shape())
                              : "not a tensor";
  }
  const Clock::time_point start = Clock::now();
  Session session(model, options.session);
  result.precision = name_of(session.precision());
  session.run(inputs, options.run);
  result.first_ms = ms_since(start);
  for (int i = 0; i < options.warmup; ++i) session.run(inputs, options.run);
  std::vector<double> times = timed_runs(session, inputs, options, result.interrupted);
  result.runs = static_cast<int>(times.size());
  std::sort(times.begin(), times.end());
  result.median_ms = median(times);
  result.min_ms = times.front();
  result.p90_ms = percentile(times, 0.90);
  result.p99_ms = percentile(times, 0.99);
  result.peak_rss_bytes = base::peak_rss_bytes();
  const Session::PlanMemory plan = session.plan_memory(inputs);
  const MemoryUse use = session.memory();
  result.arena_bytes = plan.arena_bytes;
  result.weights_bytes = use.weights_bytes + use.packed_weights_bytes;
  result.device_arena_bytes = plan.device_arena_bytes;
  result.device_weights_bytes = use.device.weights_bytes + use.device.packed_weights_bytes;
  return result;
}

std::string bench_json(const std::string& model, const BenchResult& result) {
  return json_text({{"model", model},
                    {"precision", result.precision},
                    {"threads", result.threads},
                    {"shapes", result.shapes},
                    {"load_ms", result.load_ms},
                    {"first_ms", result.first_ms},
                    {"median_ms", result.median_ms},
                    {"min_ms", result.min_ms},
                    {"p90_ms", result.p90_ms},
                    {"p99_ms", result.p99_ms},
                    {"runs", result.runs},
                    {"interrupted", result.interrupted},
                    {"peak_rss_bytes", result.peak_rss_bytes},
                    {"arena_bytes", result.arena_bytes},
                    {"weights_bytes", result.weights_bytes},
                    {"device_arena_bytes", result.device_arena_bytes},
                    {"device_weights_bytes", result.device_weights_bytes}},
                   2);
}

}  // namespace tessera::report
