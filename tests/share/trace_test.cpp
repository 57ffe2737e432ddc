#include "share/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "share/model_steps.h"
#include "support/expect_error.h"

namespace tessera::share::trace_test {
namespace {

const cost::DeviceProfile& a100() {
  return *cost::find_built_in_profile("a100-80-sxm");
}

Trace parse(const std::string& text) {
  return parse_trace(text, "trace.toml", a100());
}

void expect_refused(const std::string& text, const std::string& message) {
  test::expect_error_containing(ErrorKind::invalid_argument, message, [&] { parse(text); });
}

TEST(Trace, JobsHaveWhatTheFileSays) {
  const Trace trace = parse(
      "seed = 4\n"
      "[job.load]\nsteps_us = [500, 1.5]\ncold_us = [600, 2]\nrepeat = 2\ncompute = 0.25\nlink = 1\nclass = "
      "\"background\"\nweight = 3\n"
      "wait_ms = 7\nrequests = 9\npersistent = \"2GiB\"\ntemporary = \"1.5 MB\"\n"
      "[job.search]\nmodel = \"bert_base\"\nclass = \"realtime\"\ngoal_ms = 20\ntimes_ms = [0, 2, 2.5]\n");
  EXPECT_EQ(trace.seed, 4U);
  ASSERT_EQ(trace.jobs.size(), 2U);
  const SimulatedJob &load = trace.jobs[0], &search = trace.jobs[1];
  EXPECT_EQ(load.options.name, "load");
  EXPECT_EQ(load.options.priority, Priority::background);
  EXPECT_EQ(load.options.weight, 3);
  ASSERT_EQ(load.steps.size(), 4U);
  EXPECT_EQ(load.steps[2].ns, 500'000);
  EXPECT_EQ(load.steps[3].ns, 1500);
  EXPECT_EQ(load.steps[3].cold_ns, 2000);
  EXPECT_EQ(load.steps[3].demand.compute, 0.25);
  EXPECT_EQ(load.steps[3].demand.link, 1);
  EXPECT_EQ(load.arrivals.requests, 9);
  EXPECT_EQ(load.arrivals.wait_ns, 7'000'000);
  EXPECT_EQ(load.options.persistent_bytes, std::int64_t{2} << 30);
  EXPECT_EQ(load.options.temporary_bytes, 1'500'000);
  EXPECT_EQ(search.options.goal_ns, 20'000'000);
  EXPECT_THAT(search.arrivals.times_ns, testing::ElementsAre(0, 2'000'000, 2'500'000));
  EXPECT_GT(search.steps.size(), 100U);
  EXPECT_NEAR(static_cast<double>(search.options.persistent_bytes), 110e6 * 4, 20e6 * 4);  // 110 million weights
}

TEST(Trace, FaultsAreNamedWithTheirPlace) {
  expect_refused("", "trace.toml has no jobs");
  expect_refused("[job.a]\nclass = \"urgent\"\nsteps_us = [1]\n",
                 "trace.toml: job.a.class is 'urgent', expected one of realtime, standard, background");
  expect_refused("[job.a]\n", "trace.toml: job.a needs either 'model'");
  expect_refused("[job.a]\nsteps_us = [1]\nmodel = \"mlp\"\n", "needs either 'model'");
  expect_refused("[job.a]\nsteps_us = [1]\narrivals = \"poisson\"\n", "need 'rate'");
  expect_refused("[job.a]\nsteps_us = [1]\ntimes_ms = [2, 1]\n", "1 comes after 2");
  expect_refused("[job.a]\nsteps_us = [1]\npersistent = \"2 bananas\"\n", "job.a.persistent is '2 bananas'");
  expect_refused("[job.a]\nsteps_us = [1]\nweigth = 2\n", "did you mean 'weight'?");
  expect_refused("[job.a]\nsteps_us = [1]\ncold_us = [1, 2]\n", "cold_us has 2 steps, expected the 1 of steps_us");
  expect_refused("[job.a]\nsteps_us = [1]\nweight = 0\n", "weight is 0, expected a number above 0");
  expect_refused("[job.a]\nsteps_us = [1]\ncompute = 1.5\n", "compute is 1.5, expected a share from 0 to 1");
}

TEST(ModelSteps, TrainingCostsThreeForwardPassesAndMoreMemory) {
  const ModelSteps forward = model_steps("lenet5", {{"batch", 32}}, false, cost::Precision::f32, a100());
  const ModelSteps training = model_steps("lenet5", {{"batch", 32}}, true, cost::Precision::f32, a100());
  const auto length = [](const ModelSteps& steps) {
    std::int64_t ns = 0;
    for (const SimulatedStep& step : steps.steps) ns += step.ns;
    return ns;
  };
  EXPECT_EQ(length(training), 3 * length(forward));
  EXPECT_EQ(training.persistent_bytes, 3 * forward.persistent_bytes);
  EXPECT_GT(training.temporary_bytes, 2 * forward.temporary_bytes);
  for (const SimulatedStep& step : forward.steps) {
    EXPECT_GT(step.ns, 0);
    EXPECT_LE(step.demand.slowdown(), 1);
  }
}

TEST(Arrivals, KeepTheirRateAndComeInBursts) {
  const Arrivals poisson{.kind = Arrivals::Kind::poisson, .requests = 20'000, .rate = 100};
  const std::vector<std::int64_t> times = arrival_times(poisson, 1, 0);
  EXPECT_EQ(times, arrival_times(poisson, 1, 0));
  EXPECT_NE(times, arrival_times(poisson, 1, 1));
  EXPECT_NEAR(static_cast<double>(times.back()), 200e9, 5e9);
  Arrivals bursts = poisson;
  bursts.kind = Arrivals::Kind::bursts;
  bursts.burst = 10;
  const std::vector<std::int64_t> together = arrival_times(bursts, 1, 0);
  EXPECT_EQ(together[0], together[9]);
  EXPECT_LT(together[9], together[10]);
  EXPECT_NEAR(static_cast<double>(together.back()), 200e9, 15e9);
}

}  // namespace
}  // namespace tessera::share::trace_test
