#include "share/record.h"

#include <gtest/gtest.h>

#include <numeric>

#include "models/models.h"
#include "runtime/session/random_inputs.h"
#include "share/trace.h"
#include "support/expect_error.h"

namespace tessera::share::record_test {
namespace {

TEST(Record, StepsSumToAtLeastWhatRunsTake) {
  const Model model(std::make_shared<ir::Graph>(models::build_model("lenet5", {.dims = {{"batch", 1}}})));
  Session session(model);
  const NamedValues inputs = runtime::random_inputs(model, 1);
  const std::string text =
      record_job(session, inputs, {.name = "digits", .priority = Priority::realtime, .goal_ms = 5, .rate = 20});
  const Trace trace = parse_trace(text, "recorded", cost::load_profile("a100-80-sxm"));
  ASSERT_EQ(trace.jobs.size(), 1u);
  const SimulatedJob& job = trace.jobs[0];
  EXPECT_EQ(job.options.goal_ns, 5'000'000);
  EXPECT_EQ(job.arrivals.kind, Arrivals::Kind::poisson);
  std::vector<StepTiming> timings;
  session.run(inputs, {.timings = &timings});
  EXPECT_EQ(job.steps.size(), timings.size());
  std::int64_t recorded_ns = 0, least_ns = INT64_MAX;
  for (const SimulatedStep& step : job.steps) recorded_ns += step.ns;
  for (int i = 0; i < 50; ++i) {
    const std::int64_t begin_ns = Clock::steady().now_ns();
    session.run(inputs);
    least_ns = std::min(least_ns, Clock::steady().now_ns() - begin_ns);
  }
  EXPECT_GE(recorded_ns, least_ns / 2);
  for (const SimulatedStep& step : job.steps) EXPECT_GT(step.cold_ns, 0);
  test::expect_error_containing(ErrorKind::invalid_argument, "is no name for a job",
                                [&] { record_job(session, inputs, {.name = "two words"}); });
}

}  // namespace
}  // namespace tessera::share::record_test
