#include "share/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"

namespace tessera::share::cluster_test {
namespace {

// Erlang's C formula: the part of jobs that wait in M/M/c with a load of `load` servers, by Erlang's B recursion.
double erlang_c(int servers, double load) {
  double b = 1;
  for (int i = 1; i <= servers; ++i) b = load * b / (i + load * b);
  return b / (1 - load / servers * (1 - b));
}

TEST(Cluster, AgreesWithErlangsFormula) {
  for (const auto& [nodes, use] : {std::pair{1, 0.8}, {4, 0.9}}) {
    ClusterOptions options{.nodes = nodes, .devices_per_node = 8, .seed = 5, .jobs = 400'000, .mean_seconds = 100};
    const int servers = 8 * nodes;
    const double load = use * servers;
    options.jobs_per_hour = load / options.mean_seconds * 3600;
    const ClusterOutcome outcome = simulate_cluster(options);
    const double waiting = erlang_c(servers, load), wait_s = waiting * options.mean_seconds / (servers - load);
    EXPECT_NEAR(outcome.waiting_share, waiting, 0.05 * waiting) << servers;
    EXPECT_NEAR(outcome.mean_wait_s, wait_s, 0.1 * wait_s) << servers;
    EXPECT_NEAR(outcome.use, use, 0.01) << servers;
    EXPECT_NEAR(outcome.mean_slowdown, 1, 1e-9) << servers;
  }
}

ClusterOptions sliced(Placement placement) {
  return {.nodes = 8,
          .devices_per_node = 4,
          .slices = 7,
          .placement = placement,
          .seed = 2,
          .jobs = 20'000,
          .jobs_per_hour = 150,
          .mean_seconds = 3600 * 0.3,
          .heavy_tail = 1.5,
          .most_slices = 7};
}

TEST(Cluster, PlacementsThatKeepDevicesWholeLetLargeJobsIn) {
  const double spread = simulate_cluster(sliced(Placement::spread)).mean_wait_s;
  EXPECT_LT(simulate_cluster(sliced(Placement::best_fit)).mean_wait_s, 0.9 * spread);
  EXPECT_LT(simulate_cluster(sliced(Placement::pack)).mean_wait_s, 0.9 * spread);
}

TEST(Cluster, PlacementByInterferenceSlowsJobsLeast) {
  ClusterOptions options = sliced(Placement::interference);
  options.most_slices = 2;
  options.intensity = 1.5;
  const double aware = simulate_cluster(options).mean_slowdown;
  options.placement = Placement::pack;
  EXPECT_LT(aware, 0.9 * simulate_cluster(options).mean_slowdown);
  EXPECT_GE(aware, 1);
}

TEST(Cluster, DaysMakeMoreJobsWait) {
  ClusterOptions options{.nodes = 2, .seed = 1, .jobs = 50'000, .jobs_per_hour = 140, .mean_seconds = 300};
  const double level = simulate_cluster(options).mean_wait_s;
  options.diurnal = 0.8;
  EXPECT_GT(simulate_cluster(options).mean_wait_s, 2 * level);
}

TEST(Cluster, UseIsCountedWhileJobsCome) {
  ClusterOptions options{.nodes = 1, .devices_per_node = 8, .jobs = 300, .jobs_per_hour = 400, .mean_seconds = 60};
  options.heavy_tail = 2.5;
  double longest = 0;
  for (options.seed = 1; options.seed <= 20; ++options.seed) {
    const ClusterOutcome outcome = simulate_cluster(options);
    const double after_hours = outcome.hours - outcome.arrival_hours;
    EXPECT_NEAR(outcome.arrival_hours, 0.75, 0.2);
    EXPECT_GE(after_hours, 0);
    // What was served while jobs came is a part of what was served in all.
    const double served = outcome.use * outcome.arrival_hours, all = outcome.use_to_the_end * outcome.hours;
    EXPECT_LE(served, all * (1 + 1e-9));
    EXPECT_GE(served, all - after_hours - 1e-9);
    EXPECT_NEAR(outcome.offered_load, 400.0 / 3600 * 60 / 8, 1e-9);
    EXPECT_FALSE(outcome.is_overloaded());
    longest = std::max(longest, outcome.use / outcome.use_to_the_end);
  }
  EXPECT_GT(longest, 1.5);  // one job that goes on for long after the others
}

TEST(Cluster, AnOverloadIsSaid) {
  ClusterOptions options{.nodes = 1, .devices_per_node = 4, .seed = 4, .jobs = 400, .jobs_per_hour = 8};
  options.mean_seconds = 3600;
  const ClusterOutcome outcome = simulate_cluster(options);
  EXPECT_NEAR(outcome.offered_load, 2, 1e-9);
  EXPECT_TRUE(outcome.is_overloaded());
  EXPECT_GT(outcome.use, 0.95);
  // Jobs that slow each other are more work than they say.
  options.jobs_per_hour = 3.5;
  EXPECT_FALSE(simulate_cluster(options).is_overloaded());
  options.slices = 4;
  options.jobs_per_hour = 14;
  options.intensity = 2;
  EXPECT_TRUE(simulate_cluster(options).is_overloaded());
}

TEST(Cluster, TheLastNodeMayHaveFewerDevices) {
  for (const Placement placement : {Placement::pack, Placement::spread, Placement::best_fit, Placement::interference}) {
    ClusterOptions options{.nodes = 1, .devices_per_node = 8, .devices = 11, .placement = placement, .seed = 1};
    options.jobs_per_hour = 1000;
    const ClusterOutcome outcome = simulate_cluster(options);
    EXPECT_GT(outcome.use, 0.8);
    EXPECT_LE(outcome.use, 1.0);
    EXPECT_EQ(device_count(options), 11);
  }
}

TEST(Cluster, ReadsItsTable) {
  const ClusterOptions options =
      parse_cluster("seed = 3\n[cluster]\nnodes = 512\nplacement = \"pack\"\nheavy_tail = 1.5\n", "trace.toml");
  EXPECT_EQ(options.nodes, 512);
  EXPECT_EQ(options.placement, Placement::pack);
  EXPECT_EQ(options.heavy_tail, 1.5);
  EXPECT_EQ(options.seed, 3U);
  test::expect_error_containing(ErrorKind::invalid_argument, "did you mean 'nodes'?",
                                [] { parse_cluster("[cluster]\nnoodes = 1\n", "t"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "sed is unknown; did you mean 'seed'?",
                                [] { parse_cluster("sed = 1\n[cluster]\nnodes = 1\n", "t"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "clusters is unknown",
                                [] { parse_cluster("[cluster]\nnodes = 1\n[clusters]\n", "t"); });
  EXPECT_NO_THROW(parse_cluster("seed = 1\n[cluster]\nnodes = 1\n[job.a]\nanything = 1\n", "t"));
  test::expect_error_containing(ErrorKind::invalid_argument, "spread, pack, best_fit, interference",
                                [] { parse_cluster("[cluster]\nplacement = \"random\"\n", "t"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "cluster.most_slices is 9",
                                [] { parse_cluster("[cluster]\nslices = 7\nmost_slices = 9\n", "t"); });
}

}  // namespace
}  // namespace tessera::share::cluster_test
