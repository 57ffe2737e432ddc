// Work and waiting of many sessions that run at once against two, on the same machine and model.
//
//   build/release/bench/bench_concurrent_sessions [--json] [--sessions N] [--seconds S] [MODEL …]
//
// MODEL: a net of `tessera make-model` or an ONNX file (lenet5, dlrm, mobilenet_v2, lstm unless given). Each session
// runs back to back on a thread of its own. In turn, five rounds: two sessions, then N (10). Printed are medians of the
// rounds: runs per second, their ratio, and the 99th percentile of a run's time with N sessions beside what fair turns
// give: each of the N / cores sessions that share a core computes for a turn, or for a run if that is longer, before it
// is this one's again.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/threads/core_ledger.h"
#include "base/threads/thread_pool.h"
#include "bench/net.h"
#include "runtime/session/random_inputs.h"
#include "tessera/error.h"
#include "tessera/session.h"

namespace {

using tessera::Clock;

struct Options {
  bool json = false;
  int sessions = 10;
  double seconds = 2;
  std::vector<std::string> models;
};

struct Round {
  double runs_per_second = 0, median_ms = 0, p99_ms = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double milliseconds(std::int64_t duration_ns) {
  return static_cast<double>(duration_ns) * 1e-6;
}

Round run_all(std::vector<tessera::Session>& sessions, std::size_t count, const tessera::NamedValues& inputs,
              double seconds) {
  std::atomic<bool> stop{false};
  std::vector<std::vector<double>> times(count);
  std::vector<std::thread> threads;
  const std::int64_t start = Clock::steady().now_ns();
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      while (!stop) {
        const std::int64_t begin = Clock::steady().now_ns();
        sessions[i].run(inputs);
        times[i].push_back(milliseconds(Clock::steady().now_ns() - begin));
      }
    });
  }
  Clock::steady().sleep_until(start + static_cast<std::int64_t>(seconds * 1e9));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  const double took = milliseconds(Clock::steady().now_ns() - start) / 1e3;
  std::vector<double> all;
  for (const std::vector<double>& each : times) all.insert(all.end(), each.begin(), each.end());
  std::sort(all.begin(), all.end());
  return {static_cast<double>(all.size()) / took, all[all.size() / 2], all[(all.size() - 1) * 99 / 100]};
}

void measure(const std::string& name, const Options& options) {
  const tessera::Model model = tessera::bench::net_of_one(name);
  const tessera::NamedValues inputs = tessera::runtime::random_inputs(model, 1);
  std::vector<tessera::Session> sessions;
  for (int i = 0; i < options.sessions; ++i) sessions.emplace_back(model).run(inputs);
  std::vector<double> two_rates, many_rates, ratios, p99s, run_times;
  for (int round = 0; round < 5; ++round) {
    const Round two = run_all(sessions, 2, inputs, options.seconds);
    const Round many = run_all(sessions, sessions.size(), inputs, options.seconds);
    two_rates.push_back(two.runs_per_second);
    many_rates.push_back(many.runs_per_second);
    ratios.push_back(many.runs_per_second / two.runs_per_second);
    p99s.push_back(many.p99_ms);
    run_times.push_back(two.median_ms);
  }
  const double run_ms = median(run_times), turn_ms = milliseconds(tessera::base::CoreLedger::kTurnNs);
  const double on_a_core = static_cast<double>(options.sessions) / tessera::base::ThreadPool::process().cores();
  const double fair_ms = run_ms + (on_a_core - 1) * std::max(run_ms, turn_ms);
  if (options.json) {
    const nlohmann::json line{{"model", name},
                              {"sessions", options.sessions},
                              {"two_runs_per_second", median(two_rates)},
                              {"runs_per_second", median(many_rates)},
                              {"ratio", median(ratios)},
                              {"run_ms", run_ms},
                              {"p99_ms", median(p99s)},
                              {"fair_p99_ms", fair_ms}};
    fmt::print("{}\n", line.dump());
    return;
  }
  fmt::print(
      "{:<14} 2 sessions {:9.1f} runs/s, {} sessions {:9.1f} runs/s, ratio {:.3f}; p99 {:8.2f} ms, fair {:8.2f}, "
      "ratio {:.2f}\n",
      name, median(two_rates), options.sessions, median(many_rates), median(ratios), median(p99s), fair_ms,
      median(p99s) / fair_ms);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") options.json = true;
    else if (argument == "--sessions" && i + 1 < argc) options.sessions = std::max(2, std::atoi(argv[++i]));
    else if (argument == "--seconds" && i + 1 < argc) options.seconds = std::atof(argv[++i]);
    else options.models.emplace_back(argument);
  }
  if (options.models.empty()) options.models = {"lenet5", "dlrm", "mobilenet_v2", "lstm"};
  return options;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  for (const std::string& model : options.models) measure(model, options);
} catch (const tessera::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
