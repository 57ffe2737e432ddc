#include "share/record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <functional>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/threads/thread_pool.h"
#include "share/trace.h"

namespace tessera::share {
namespace {

// The first run plans and packs, the next ones warm caches up.
constexpr int kUnmeasured = 3;
constexpr double kLeastUs = 0.001;  // a step of a trace has a length

bool is_key(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char each) {
    return std::isalnum(each) != 0 || each == '_' || each == '-';
  });
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Drives what a model keeps in the caches out of them, as the run of a neighbour would.
class CacheSweep {
 public:
  void run() {
    const base::ThreadPool::CoreLease lease(base::ThreadPool::process());
    base::ThreadPool::process().parallel_for(kChunks, 1, 0, [&](std::int64_t begin, std::int64_t end) {
      unsigned sum = 0;
      for (std::size_t i = static_cast<std::size_t>(begin) * kChunk; i < static_cast<std::size_t>(end) * kChunk;
           i += kLine)
        sum += bytes_[i]++;
      sum_.fetch_add(sum, std::memory_order_relaxed);
    });
  }

 private:
  // More than the caches that belong to cores; what a virtual machine has of a last cache is not known.
  static constexpr std::size_t kChunk = std::size_t{1} << 20, kLine = 64;
  static constexpr std::int64_t kChunks = 64;
  std::vector<unsigned char> bytes_ = std::vector<unsigned char>(static_cast<std::size_t>(kChunks) * kChunk);
  std::atomic<unsigned> sum_{0};
};

// Microseconds of each step of the model's own graph, the bodies of its control flow included. The time between
// steps is spread over them, so that they sum to the median time of a run without timings.
class StepTimes {
 public:
  StepTimes(Session& session, const NamedValues& inputs, const RunOptions& options)
      : session_(session),
        inputs_(inputs),
        options_(options),
        clock_(options.clock != nullptr ? *options.clock : Clock::steady()) {}

  // `before` is called before each run. Those that are not `counts` only warm up.
  void measure(const std::function<void()>& before, bool counts) {
    before();
    options_.timings = nullptr;
    const std::int64_t begin_ns = clock_.now_ns();
    session_.run(inputs_, options_);
    if (counts) wholes_.push_back(1e-3 * static_cast<double>(clock_.now_ns() - begin_ns));
    before();
    std::vector<StepTiming> timings;
    options_.timings = &timings;
    session_.run(inputs_, options_);
    if (!counts) return;
    std::size_t step = 0;
    for (const StepTiming& timing : timings) {
      if (timing.depth > 0) continue;
      if (step == steps_.size()) steps_.emplace_back();
      steps_[step++].push_back(1e-3 * static_cast<double>(timing.duration_ns));
    }
  }

  std::vector<double> medians() {
    std::vector<double> steps;
    for (std::vector<double>& each : steps_) steps.push_back(std::max(median(each), kLeastUs));
    const double sum = std::accumulate(steps.begin(), steps.end(), 0.0), whole = median(wholes_);
    if (sum > 0 && whole > sum) {
      for (double& step : steps) step *= whole / sum;
    }
    return steps;
  }

 private:
  Session& session_;
  const NamedValues& inputs_;
  RunOptions options_;
  const Clock& clock_;
  std::vector<std::vector<double>> steps_;
  std::vector<double> wholes_;
};

}  // namespace

std::string record_job(Session& session, const NamedValues& inputs, const RecordOptions& options,
                       RunOptions run_options) {
  require(is_key(options.name), ErrorKind::invalid_argument,
          "'{}' is no name for a job of a trace, which has letters, digits, '_' and '-'", options.name);
  require(options.runs > 0 && options.requests > 0, ErrorKind::invalid_argument,
          "{} runs and {} requests make no trace, expected 1 or more of each", options.runs, options.requests);
  StepTimes warm(session, inputs, run_options), cold(session, inputs, run_options);
  CacheSweep sweep;
  for (int run = 0; run < kUnmeasured + options.runs; ++run) warm.measure([] {}, run >= kUnmeasured);
  for (int run = 0; run < options.runs; ++run) cold.measure([&] { sweep.run(); }, true);
  const std::vector<double> steps = warm.medians(), cold_steps = cold.medians();
  require(!steps.empty(), ErrorKind::invalid_argument, "the model has no steps to record");
  const MemoryUse memory = session.memory();
  std::string text = fmt::format("[job.{}]\nclass = \"{}\"\nsteps_us = [{:.3f}]\ncold_us = [{:.3f}]\n", options.name,
                                 name_of(options.priority), fmt::join(steps, ", "), fmt::join(cold_steps, ", "));
  text += fmt::format("persistent = \"{}\"\ntemporary = \"{}\"\n",
                      memory.weights_bytes + memory.packed_weights_bytes + memory.variables_bytes,
                      session.plan_memory(inputs).arena_bytes);
  if (options.goal_ms > 0) text += fmt::format("goal_ms = {}\n", options.goal_ms);
  text += options.rate > 0 ? fmt::format("arrivals = \"poisson\"\nrate = {}\n", options.rate)
                           : std::string("arrivals = \"closed\"\n");
  return text + fmt::format("requests = {}\n", options.requests);
}

}  // namespace tessera::share
