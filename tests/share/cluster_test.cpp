#include "share/cluster.h"

#include <gtest/gtest.h>

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

TEST(Cluster, ReadsItsTable) {
  const ClusterOptions options =
      parse_cluster("seed = 3\n[cluster]\nnodes = 512\nplacement = \"pack\"\nheavy_tail = 1.5\n", "trace.toml");
  EXPECT_EQ(options.nodes, 512);
  EXPECT_EQ(options.placement, Placement::pack);
  EXPECT_EQ(options.heavy_tail, 1.5);
  EXPECT_EQ(options.seed, 3U);
  test::expect_error_containing(ErrorKind::invalid_argument, "did you mean 'nodes'?",
                                [] { parse_cluster("[cluster]\nnoodes = 1\n", "t"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "spread, pack, best_fit, interference",
                                [] { parse_cluster("[cluster]\nplacement = \"random\"\n", "t"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "cluster.most_slices is 9",
                                [] { parse_cluster("[cluster]\nslices = 7\nmost_slices = 9\n", "t"); });
}

}  // namespace
}  // namespace tessera::share::cluster_test
