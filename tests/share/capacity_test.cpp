#include "share/capacity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"

namespace tessera::share::capacity_test {
namespace {

// The fewest servers with which the p99 of the wait in M/M/c (Erlang) is at most so long.
int erlang_servers(double load, double mean_s, double most_p99_s) {
  for (int servers = static_cast<int>(load) + 1;; ++servers) {
    double b = 1;
    for (int i = 1; i <= servers; ++i) b = load * b / (i + load * b);
    const double waits = b / (1 - load / servers * (1 - b));
    const double p99_s = waits <= 0.01 ? 0 : std::log(waits / 0.01) * mean_s / (servers - load);
    if (p99_s <= most_p99_s) return servers;
  }
}

TEST(Capacity, DevicesOfAClusterAgreeWithErlangsFormula) {
  ClusterOptions options{.devices_per_node = 1, .seed = 5, .jobs = 30'000, .mean_seconds = 100};
  for (const auto& [load, most_p99_s] : {std::pair{7.0, 100.0}, {20.0, 30.0}}) {
    options.jobs_per_hour = load / options.mean_seconds * 3600;
    const DevicesNeeded needed = devices_for_wait(options, most_p99_s);
    EXPECT_NEAR(needed.devices, erlang_servers(load, options.mean_seconds, most_p99_s), 1) << load;
    EXPECT_LE(needed.p99_s, most_p99_s);
    EXPECT_GT(needed.p99_fewer_s, most_p99_s);
    options.devices = needed.devices;
    EXPECT_EQ(simulate_cluster(options).p99_wait_s, needed.p99_s);
  }
}

SimulatedJob requests(double rate, std::int64_t step_ns) {
  SimulatedJob job;
  job.options = {.name = "search", .priority = Priority::realtime};
  job.steps = {{.ns = step_ns, .demand = {1, 0, 0}}};
  job.arrivals = {.kind = Arrivals::Kind::poisson, .requests = 5000, .rate = rate};
  return job;
}

TEST(Capacity, DevicesForALatencyCarryTheLoad) {
  const SharedDevice device{"test", 0, false};
  const Trace trace{.seed = 3, .jobs = {requests(350, 10'000'000)}};  // 3.5 devices of work
  const DevicesNeeded loose = devices_for_latency(trace, device, "fifo", 1.0);
  EXPECT_GE(loose.devices, 4);
  EXPECT_LE(loose.devices, 5);
  const DevicesNeeded strict = devices_for_latency(trace, device, "fifo", 0.025);
  EXPECT_GT(strict.devices, loose.devices);
  EXPECT_LE(strict.p99_s, 0.025);
  EXPECT_GT(strict.p99_fewer_s, 0.025);
  // A single step takes longer than what is asked for.
  const DevicesNeeded impossible = devices_for_latency(trace, device, "fifo", 0.009);
  EXPECT_EQ(impossible.devices, 0);
  EXPECT_NEAR(impossible.p99_s, 0.01, 1e-6);
}

TEST(Capacity, TheMostImportantJobsCount) {
  SimulatedJob training;
  training.options = {.name = "training", .priority = Priority::background};
  training.steps = {{.ns = 1'000'000, .demand = {1, 0, 0}}};
  training.arrivals = {.kind = Arrivals::Kind::closed, .requests = 5000};
  const SharedDevice device{"test", 0, false};
  const Trace trace{.seed = 3, .jobs = {training, requests(50, 10'000'000)}};
  EXPECT_EQ(devices_for_latency(trace, device, "fill", 0.2).devices, 1);
  test::expect_error_containing(ErrorKind::invalid_argument, "no job of the trace has requests that come by themselves",
                                [&] { devices_for_latency({.jobs = {training}}, device, "fill", 1); });
}

}  // namespace
}  // namespace tessera::share::capacity_test
