#include "bench/share/load.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <numeric>
#include <thread>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace tessera::bench::load_test {
namespace {

TEST(Load, PoissonArrivalsAreIndependentOfEachOther) {
  const Load load = parse_load({"poisson", "20000", "100", "3"});
  ASSERT_EQ(load.count, 20000);
  EXPECT_TRUE(std::ranges::is_sorted(load.due_ns));
  std::vector<double> gaps;
  for (std::size_t i = 1; i < load.due_ns.size(); ++i)
    gaps.push_back(1e-9 * static_cast<double>(load.due_ns[i] - load.due_ns[i - 1]));
  const double mean = std::accumulate(gaps.begin(), gaps.end(), 0.0) / static_cast<double>(gaps.size());
  double variance = 0;
  for (const double gap : gaps) variance += (gap - mean) * (gap - mean) / static_cast<double>(gaps.size());
  EXPECT_NEAR(mean, 0.01, 0.0003);
  EXPECT_NEAR(std::sqrt(variance) / mean, 1, 0.03);  // of an exponential distribution
  EXPECT_EQ(load.due_ns, parse_load({"poisson", "20000", "100", "3"}).due_ns);
  EXPECT_NE(load.due_ns, parse_load({"poisson", "20000", "100", "4"}).due_ns);
}

TEST(Load, UniformBurstsAndReplayComeWhenTheySay) {
  EXPECT_EQ(parse_load({"uniform", "3", "1000"}).due_ns, (std::vector<std::int64_t>{0, 1'000'000, 2'000'000}));
  const Load bursts = parse_load({"bursts", "9", "10", "3"});
  EXPECT_EQ(bursts.due_ns[0], bursts.due_ns[2]);
  EXPECT_LT(bursts.due_ns[2], bursts.due_ns[3]);
  const test::TemporaryFolder folder;
  const std::string path = (folder / "moments.txt").string();
  std::ofstream(path) << "0.5\n2\n2\n";
  EXPECT_EQ(parse_load({"replay", path}).due_ns, (std::vector<std::int64_t>{500'000, 2'000'000, 2'000'000}));
  std::ofstream(path) << "3\n2\n";
  test::expect_error_containing(ErrorKind::invalid_argument, "do not ascend", [&] { parse_load({"replay", path}); });
  std::ofstream(path) << "3\nsoon\n";
  test::expect_error_containing(ErrorKind::invalid_argument, "does not hold moments",
                                [&] { parse_load({"replay", path}); });
}

TEST(Load, WhatIsNoLoadIsRefusedWithAList) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"steady", "3"}, {"poisson", "3"}, {"closed", "3", "4"}, {"uniform", "-1", "4"}})
    test::expect_error_containing(ErrorKind::invalid_argument, "bursts COUNT RATE SIZE", [&] { parse_load(words); });
}

// A request is due every millisecond, and the first is answered after 60: all that were due meanwhile waited.
TEST(Load, ALateAnswerCountsForAllThatWereDueMeanwhile) {
  int sent = 0;
  const LoadResult open = run_load(parse_load({"uniform", "40", "1000"}), 1, [&] {
    return [&] {
      if (sent++ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(60));
      return 0;
    };
  });
  ASSERT_EQ(open.latencies_us.size(), 40u);
  for (std::size_t i = 0; i < 40; ++i)
    EXPECT_GE(open.latencies_us[i], 60e3 - 1e3 * static_cast<double>(i)) << "request " << i;
  EXPECT_GE(open.lateness_us[39], 20e3);
  EXPECT_EQ(summary(open.lateness_us)["count"], 40);
  EXPECT_GE(open.seconds, 0.06);
}

TEST(Load, AClosedLoopSendsWhenTheLastIsAnswered) {
  std::atomic<int> in_flight{0}, most{0};
  const LoadResult closed = run_load(
      parse_load({"closed", "50"}), 3,
      [&] {
        return [&, number = 0]() mutable {
          most = std::max(most.load(), ++in_flight);
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          --in_flight;
          return number++ == 0 ? 503 : 200;
        };
      },
      200);
  EXPECT_LE(most, 3);
  EXPECT_EQ(closed.outcomes.at(200) + closed.outcomes.at(503), 50);
  EXPECT_GE(closed.outcomes.at(503), 1);
  EXPECT_LE(closed.outcomes.at(503), 3);
  EXPECT_EQ(static_cast<std::int64_t>(closed.latencies_us.size()), closed.outcomes.at(200));
  EXPECT_TRUE(closed.lateness_us.empty());
  for (const double us : closed.latencies_us) EXPECT_GE(us, 1000);
}

TEST(Load, EndsInTimeAndWithTheErrorOfAClient) {
  const auto nothing = [] { return [] { return 0; }; };
  EXPECT_LE(run_load(parse_load({"uniform", "1000", "10"}), 2, nothing, 0, 0.05).latencies_us.size(), 2u);
  const auto fails = [] { return []() -> std::int64_t { throw std::runtime_error("lost"); }; };
  EXPECT_THROW(run_load(parse_load({"closed", "10"}), 2, fails), std::runtime_error);
}

TEST(Load, SummariesAreOfTheNearestRank) {
  std::vector<double> values(1000);
  std::iota(values.rbegin(), values.rend(), 1.0);
  const nlohmann::json found = summary(values);
  EXPECT_EQ(found["p50_us"], 500);
  EXPECT_EQ(found["p99_us"], 990);
  EXPECT_EQ(found["p99.9_us"], 999);
  EXPECT_EQ(found["max_us"], 1000);
  EXPECT_EQ(found["mean_us"], 500.5);
  EXPECT_EQ(summary({})["p99_us"], 0);
  std::int64_t count = 0;
  double last = 0;
  for (const auto& bin : histogram(values)) {
    EXPECT_GT(bin[0], last);
    last = bin[0];
    count += bin[1].get<std::int64_t>();
  }
  EXPECT_EQ(count, 1000);
  EXPECT_GE(last, 1000);
  EXPECT_LE(last, 1000 * 1.0651);
}

}  // namespace
}  // namespace tessera::bench::load_test
