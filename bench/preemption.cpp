// How long a realtime run waits for the cores of a machine that a model keeps busy, and what yielding costs the model.
//
//   build/release/bench/bench_preemption [--json] [--requests N] [--hold-us US] [MODEL …]
//
// MODEL: a net of `tessera make-model` (resnet50, bert_base, unet3d, lstm unless given). It runs on two threads, again
// and again. A second thread asks for two cores at random moments, holds them for a while and gives them back: "first"
// is the time until it has one core, "granted" until it has both. Every run of the model must give the bits of a run
// that nobody disturbed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/numbers/philox.h"
#include "base/threads/thread_pool.h"
#include "bench/net.h"
#include "runtime/session/random_inputs.h"
#include "tessera/error.h"
#include "tessera/session.h"

namespace {

using tessera::Clock;
using tessera::base::ThreadPool;

constexpr int kThreads = 2;
constexpr std::int64_t kMicrosecond = 1000, kPatienceNs = 100'000'000;

struct Options {
  bool json = false;
  int requests = 1000;
  std::int64_t hold_us = 300;
  std::vector<std::string> models;
};

struct Result {
  std::string model;
  double run_ms = 0;  // of an undisturbed run
  std::vector<double> first_us, granted_us;
  std::int64_t disturbed_runs = 0, different_runs = 0;
};

double percentile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

bool same_bits(const tessera::NamedValues& a, const tessera::NamedValues& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    const tessera::Tensor &s = x.second.tensor(), &t = y.second.tensor();
    return s.bytes() == t.bytes() && std::memcmp(s.raw(), t.raw(), static_cast<std::size_t>(s.bytes())) == 0;
  });
}

double seconds_since(std::int64_t start_ns) {
  return static_cast<double>(Clock::steady().now_ns() - start_ns) * 1e-9;
}

// One request for both cores; its times in microseconds.
void request(ThreadPool& pool, std::int64_t hold_us, Result& result) {
  const std::int64_t asked = Clock::steady().now_ns();
  const ThreadPool::CoreLease lease(pool, tessera::Priority::realtime, Clock::steady(), kThreads);
  const std::int64_t first = Clock::steady().now_ns();
  while (lease.cores() < kThreads && Clock::steady().now_ns() - asked < kPatienceNs) {
  }
  const std::int64_t granted = Clock::steady().now_ns();
  result.first_us.push_back(static_cast<double>(first - asked) / kMicrosecond);
  result.granted_us.push_back(static_cast<double>(granted - asked) / kMicrosecond);
  while (Clock::steady().now_ns() - granted < hold_us * kMicrosecond) {
  }
}

Result measure(const std::string& name, const Options& options) {
  const tessera::Model model = tessera::bench::net_of_one(name);
  tessera::Session session(model, {.threads = kThreads});
  const tessera::NamedValues inputs = tessera::runtime::random_inputs(model, 1);
  const tessera::NamedValues expected = session.run(inputs);
  Result result{.model = name};
  const std::int64_t start = Clock::steady().now_ns();
  int runs = 0;
  for (; runs < 3 || seconds_since(start) < 0.5; ++runs) session.run(inputs);
  result.run_ms = seconds_since(start) * 1e3 / runs;

  std::atomic<bool> stop{false};
  std::thread background([&] {
    while (!stop) {
      if (!same_bits(session.run(inputs), expected)) ++result.different_runs;
      ++result.disturbed_runs;
    }
  });
  tessera::base::Philox random(3);
  for (int i = 0; i < options.requests; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(random.next_integer(500, 4000)));
    request(ThreadPool::process(), options.hold_us, result);
  }
  stop = true;
  background.join();
  return result;
}

void print(const Result& result, bool json) {
  const auto of = [](const std::vector<double>& times) {
    return std::array<double, 4>{percentile(times, 0.5), percentile(times, 0.95), percentile(times, 0.99),
                                 percentile(times, 1)};
  };
  const std::array<double, 4> first = of(result.first_us), granted = of(result.granted_us);
  if (json) {
    const nlohmann::json line{
        {"model", result.model},
        {"run_ms", result.run_ms},
        {"requests", result.granted_us.size()},
        {"first_us", {{"p50", first[0]}, {"p95", first[1]}, {"p99", first[2]}, {"max", first[3]}}},
        {"granted_us", {{"p50", granted[0]}, {"p95", granted[1]}, {"p99", granted[2]}, {"max", granted[3]}}},
        {"disturbed_runs", result.disturbed_runs},
        {"different_runs", result.different_runs}};
    fmt::print("{}\n", line.dump());
    return;
  }
  fmt::print(
      "{:<10} {:8.2f} ms a run; first core p50 {:6.1f} p95 {:6.1f} p99 {:6.1f} max {:7.1f} us; both p50 {:6.1f} "
      "p95 {:6.1f} p99 {:6.1f} max {:7.1f} us; {} runs, {} with other bits\n",
      result.model, result.run_ms, first[0], first[1], first[2], first[3], granted[0], granted[1], granted[2],
      granted[3], result.disturbed_runs, result.different_runs);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") options.json = true;
    else if (argument == "--requests" && i + 1 < argc) options.requests = std::atoi(argv[++i]);
    else if (argument == "--hold-us" && i + 1 < argc) options.hold_us = std::atoll(argv[++i]);
    else options.models.emplace_back(argument);
  }
  if (options.models.empty()) options.models = {"resnet50", "bert_base", "unet3d", "lstm"};
  return options;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  if (ThreadPool::process().cores() != kThreads) {
    fmt::print(stderr, "the pool has {} cores: run with TESSERA_NUM_THREADS={}\n", ThreadPool::process().cores(),
               kThreads);
    return 2;
  }
  int different = 0;
  for (const std::string& model : options.models) {
    const Result result = measure(model, options);
    print(result, options.json);
    different += result.different_runs > 0;
  }
  return different > 0 ? 1 : 0;
} catch (const tessera::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
