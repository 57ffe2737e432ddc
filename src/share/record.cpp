#include "share/record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

#include "base/error.h"
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

// Microseconds of each step of the model's own graph, the bodies of its control flow included. What passes between
// steps is spread over them, so that they sum to the median time of a run without timings.
std::vector<double> measure_steps(Session& session, const NamedValues& inputs, int runs, RunOptions options) {
  std::vector<std::vector<double>> measured;
  std::vector<double> wholes;
  const Clock& clock = options.clock != nullptr ? *options.clock : Clock::steady();
  for (int run = 0; run < kUnmeasured + runs; ++run) {
    options.timings = nullptr;
    const std::int64_t begin_ns = clock.now_ns();
    session.run(inputs, options);
    if (run >= kUnmeasured) wholes.push_back(1e-3 * static_cast<double>(clock.now_ns() - begin_ns));
    std::vector<StepTiming> timings;
    options.timings = &timings;
    session.run(inputs, options);
    if (run < kUnmeasured) continue;
    std::size_t step = 0;
    for (const StepTiming& timing : timings) {
      if (timing.depth > 0) continue;
      if (step == measured.size()) measured.emplace_back();
      measured[step++].push_back(1e-3 * static_cast<double>(timing.duration_ns));
    }
  }
  std::vector<double> steps;
  for (std::vector<double>& each : measured) steps.push_back(std::max(median(each), kLeastUs));
  const double sum = std::accumulate(steps.begin(), steps.end(), 0.0), whole = median(wholes);
  if (sum > 0 && whole > sum) {
    for (double& step : steps) step *= whole / sum;
  }
  return steps;
}

}  // namespace

std::string record_job(Session& session, const NamedValues& inputs, const RecordOptions& options,
                       RunOptions run_options) {
  require(is_key(options.name), ErrorKind::invalid_argument,
          "'{}' is no name for a job of a trace, which has letters, digits, '_' and '-'", options.name);
  require(options.runs > 0 && options.requests > 0, ErrorKind::invalid_argument,
          "{} runs and {} requests make no trace, expected 1 or more of each", options.runs, options.requests);
  const std::vector<double> steps = measure_steps(session, inputs, options.runs, run_options);
  require(!steps.empty(), ErrorKind::invalid_argument, "the model has no steps to record");
  const MemoryUse memory = session.memory();
  std::string text = fmt::format("[job.{}]\nclass = \"{}\"\nsteps_us = [{:.3f}]\n", options.name,
                                 name_of(options.priority), fmt::join(steps, ", "));
  text += fmt::format("persistent = \"{}\"\ntemporary = \"{}\"\n",
                      memory.weights_bytes + memory.packed_weights_bytes + memory.variables_bytes,
                      session.plan_memory(inputs).arena_bytes);
  if (options.goal_ms > 0) text += fmt::format("goal_ms = {}\n", options.goal_ms);
  text += options.rate > 0 ? fmt::format("arrivals = \"poisson\"\nrate = {}\n", options.rate)
                           : std::string("arrivals = \"closed\"\n");
  return text + fmt::format("requests = {}\n", options.requests);
}

}  // namespace tessera::share
