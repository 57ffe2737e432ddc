// What each policy does differently, in virtual time and to the nanosecond.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "share/simulation.h"
#include "support/expect_error.h"

namespace tessera::share::policies_test {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kMs = 1'000'000;

SimulatedJob job(const char* name, Priority priority, std::vector<std::int64_t> steps_ms, Arrivals arrivals,
                 Demand demand = {}) {
  SimulatedJob made;
  made.options.name = name;
  made.options.priority = priority;
  for (const std::int64_t ms : steps_ms) made.steps.push_back({ms * kMs, demand});
  made.arrivals = std::move(arrivals);
  return made;
}

Arrivals at(std::vector<std::int64_t> times_ms) {
  Arrivals arrivals{.kind = Arrivals::Kind::replay};
  for (const std::int64_t ms : times_ms) arrivals.times_ns.push_back(ms * kMs);
  return arrivals;
}

Arrivals closed(std::int64_t requests, std::int64_t wait_ms = 0) {
  return {.requests = requests, .wait_ns = wait_ms * kMs};
}

std::vector<std::int64_t> ends_ms(const SimulationOutcome& outcome) {
  std::vector<std::int64_t> ends;
  for (const JobOutcome& each : outcome.jobs) ends.push_back(each.end_ns / kMs);
  return ends;
}

// A training of ten steps of 4 ms, and a request at 5 ms of two steps of 1 ms that has 20 ms.
Trace request_beside_training() {
  Trace trace{.jobs = {job("training", Priority::background, std::vector<std::int64_t>(10, 4), closed(1)),
                       job("request", Priority::realtime, {1, 1}, at({5}))}};
  trace.jobs[1].options.goal_ns = 20 * kMs;
  return trace;
}

TEST(Policies, FifoLetsTheFirstRunEnd) {
  const SimulationOutcome outcome = simulate(request_beside_training(), {}, "fifo");
  EXPECT_THAT(ends_ms(outcome), ElementsAre(40, 42));
  EXPECT_EQ(outcome.jobs[1].p99_ns, 37 * kMs);
  EXPECT_EQ(outcome.jobs[1].goal_misses, 1);
  EXPECT_EQ(outcome.jobs[1].mean_queueing_ns, 35.0 * kMs);
  EXPECT_EQ(outcome.busy_ns, 42 * kMs);
  EXPECT_EQ(outcome.use(), 1);
}

TEST(Policies, FillLetsTheRequestGoAtTheNextStep) {
  const SimulationOutcome outcome = simulate(request_beside_training(), {}, "fill");
  // The step from 4 to 8 ends first: the device does not preempt.
  EXPECT_THAT(ends_ms(outcome), ElementsAre(42, 10));
  EXPECT_EQ(outcome.jobs[1].p99_ns, 5 * kMs);
}

TEST(Policies, FillPreemptsWhereTheDeviceCan) {
  const SimulationOutcome outcome = simulate(request_beside_training(), {.preempts = true}, "fill");
  EXPECT_THAT(ends_ms(outcome), ElementsAre(42, 7));
  EXPECT_EQ(outcome.jobs[0].device_ns, 40 * kMs);
  EXPECT_EQ(outcome.jobs[1].device_ns, 2 * kMs);
}

// The headroom at 8 ms is 25 − 8 − 2 = 15: three more steps of 4 ms fit, the fourth does not.
TEST(Policies, HeadroomSpendsTheSlackOfTheRequest) {
  const SimulationOutcome outcome = simulate(request_beside_training(), {}, "headroom");
  EXPECT_THAT(ends_ms(outcome), ElementsAre(42, 22));
  EXPECT_EQ(outcome.jobs[1].p99_ns, 17 * kMs);
  EXPECT_EQ(outcome.jobs[1].goal_misses, 0);
}

TEST(Policies, HeadroomLetsTheRequestWithTheLeastGoFirst) {
  Trace trace{.jobs = {job("loose", Priority::realtime, {5}, at({0})), job("busy", Priority::standard, {3}, at({0})),
                       job("tight", Priority::realtime, {5}, at({1}))}};
  trace.jobs[0].options.goal_ns = 30 * kMs;
  trace.jobs[2].options.goal_ns = 9 * kMs;
  // The standard step goes first, since all goals allow it; at 3 ms `tight` has 1 + 9 − 3 − 5 = 2 ms left.
  EXPECT_THAT(ends_ms(simulate(trace, {}, "headroom")), ElementsAre(13, 3, 8));
}

TEST(Policies, HeadroomCapsTransfersAndComputesBesideThem) {
  const Demand link{0, 0, 0.4};
  Trace trace{.jobs = {job("copy 1", Priority::background, {10}, at({0}), link),
                       job("copy 2", Priority::background, {10}, at({0}), link),
                       job("copy 3", Priority::background, {10}, at({0}), link),
                       job("kernel", Priority::background, {10}, at({0}))}};
  EXPECT_THAT(ends_ms(simulate(trace, {}, "headroom")), ElementsAre(10, 10, 20, 10));
  EXPECT_THAT(ends_ms(simulate(trace, {}, "fifo")), ElementsAre(10, 20, 30, 40));
}

// Kernels of 1 ms against kernels of 9 ms, with weights 30 and 70: device time counts, not launches.
Trace short_against_long(double claim = 1) {
  Trace trace{.jobs = {job("short", Priority::standard, std::vector<std::int64_t>(10, 1), closed(300)),
                       job("long", Priority::standard, std::vector<std::int64_t>(10, 9), closed(100))}};
  trace.jobs[0].options.weight = 30;
  trace.jobs[1].options.weight = 70;
  trace.jobs[1].claim = claim;
  return trace;
}

TEST(Policies, FairDividesMeasuredTimeByWeight) {
  const SimulationOutcome outcome = simulate(short_against_long(), {}, "fair");
  // While both are there, `short` has 0.3 of the time: its 3000 ms take 10 s, of which `long` has 7.
  EXPECT_NEAR(static_cast<double>(outcome.jobs[0].end_ns), 10e9, 0.02 * 10e9);
  EXPECT_GT(outcome.fairness, 0.9999);
  // Fewer runs of equal launches: `fifo` takes turns of whole runs, 10 ms against 90.
  const SimulationOutcome by_arrival = simulate(short_against_long(), {}, "fifo");
  EXPECT_EQ(by_arrival.jobs[1].end_ns, 10'000 * kMs);
  EXPECT_LT(by_arrival.fairness, 0.75);
}

TEST(Policies, FairBelievesNoClaims) {
  const SimulationOutcome honest = simulate(short_against_long(), {}, "fair"),
                          lie = simulate(short_against_long(0.01), {}, "fair");
  EXPECT_EQ(ends_ms(honest), ends_ms(lie));
  EXPECT_EQ(honest.fairness, lie.fairness);
}

TEST(Policies, FairOwesLittleToWhoWasAway) {
  // `late` comes after 1 s alone of `early`: it catches up 10 ms at most, and then each has half.
  Trace trace{.jobs = {job("early", Priority::standard, {1}, closed(2000)),
                       job("late", Priority::standard, {1}, {.requests = 500, .start_ns = 1000 * kMs})}};
  EXPECT_NEAR(static_cast<double>(simulate(trace, {}, "fair").jobs[1].completion_ns()), 1000e6, 12e6);
}

// Each training computes 4 ms and waits 6 ms for data.
TEST(Policies, IterationLanesOverlapWaits) {
  Trace trace{.jobs = {job("a", Priority::background, {4}, closed(100, 6), {0.5, 0.3}),
                       job("b", Priority::background, {4}, closed(100, 6), {0.5, 0.3})}};
  for (SimulatedJob& each : trace.jobs) {
    each.options.persistent_bytes = 2;
    each.options.temporary_bytes = 3;
  }
  // Room for both: 2 + 2 + 3 + 3. Half the arithmetic each: nobody is slowed.
  const SimulationOutcome two_lanes = simulate(trace, {.memory_bytes = 10}, "iteration");
  EXPECT_THAT(ends_ms(two_lanes), ElementsAre(994, 994));
  EXPECT_EQ(two_lanes.peak_memory_bytes, 10);
  // Room for both in one lane: 2 + 2 + 3. The second begins behind the first, once.
  const SimulationOutcome one_lane = simulate(trace, {.memory_bytes = 7}, "iteration");
  EXPECT_THAT(ends_ms(one_lane), ElementsAre(994, 998));
  EXPECT_EQ(one_lane.peak_memory_bytes, 7);
  // Room for one: the second waits until the first has left.
  const SimulationOutcome waits = simulate(trace, {.memory_bytes = 6}, "iteration");
  EXPECT_THAT(ends_ms(waits), ElementsAre(994, 1988));
  EXPECT_EQ(waits.peak_memory_bytes, 5);
  // Each in at most 1.2 of its time alone, both in at most 0.7 of the sum.
  EXPECT_LE(static_cast<double>(one_lane.makespan_ns), 0.7 * 2 * 994 * kMs);
}

TEST(Policies, IterationNeverAdmitsWhatDoesNotFit) {
  Trace trace{
      .jobs = {job("large", Priority::standard, {1}, closed(1)), job("small", Priority::standard, {1}, closed(1))}};
  trace.jobs[0].options.persistent_bytes = 11;
  const SimulationOutcome outcome = simulate(trace, {.memory_bytes = 10}, "iteration");
  EXPECT_EQ(outcome.jobs[0].unserved, 1);
  EXPECT_EQ(outcome.jobs[1].runs, 1);
}

TEST(Policies, IterationGrowsALaneRatherThanWait) {
  Trace trace{.jobs = {job("a", Priority::standard, {10}, at({0})), job("b", Priority::standard, {10}, at({1}))}};
  trace.jobs[0].options.temporary_bytes = 4;
  trace.jobs[1].options.temporary_bytes = 9;
  EXPECT_THAT(ends_ms(simulate(trace, {.memory_bytes = 10}, "iteration")), ElementsAre(10, 20));
}

// The realtime job misses its goal while a step of 4 ms blocks it: `fill` halves the background's share of the gaps.
TEST(Policies, FillHoldsBackgroundBackAfterMisses) {
  Trace trace{.jobs = {job("training", Priority::background, std::vector<std::int64_t>(10, 4), closed(20)),
                       job("request", Priority::realtime, {2}, {})}};
  trace.jobs[1].arrivals.kind = Arrivals::Kind::replay;
  for (std::int64_t i = 0; i < 40; ++i) trace.jobs[1].arrivals.times_ns.push_back((5 + 10 * i) * kMs);
  trace.jobs[1].options.goal_ns = 100 * kMs;
  const SimulationOutcome loose = simulate(trace, {}, "fill");
  EXPECT_EQ(loose.jobs[1].goal_misses, 0);
  EXPECT_EQ(loose.jobs[0].end_ns, 880 * kMs);  // 800 ms of its own and all 40 requests
  trace.jobs[1].options.goal_ns = 3 * kMs;
  const SimulationOutcome tight = simulate(trace, {}, "fill");
  EXPECT_GT(tight.jobs[0].end_ns, loose.jobs[0].end_ns);
  EXPECT_LT(tight.jobs[1].goal_misses, 20);
  EXPECT_LT(tight.use(), 1);
}

// Together they ask for 1.2 of the bandwidth: each takes 1.2 times as long.
Trace pair(std::int64_t goal_ms, Demand background) {
  Trace trace{.jobs = {job("request", Priority::realtime, {10}, at({0}), {0.3, 0.8}),
                       job("training", Priority::background, {10}, at({0}), background)}};
  trace.jobs[0].options.goal_ns = goal_ms * kMs;
  return trace;
}

TEST(Policies, PredictiveAdmitsPairsThatKeepTheGoal) {
  EXPECT_THAT(ends_ms(simulate(pair(13, {0.3, 0.4}), {}, "predictive")), ElementsAre(12, 12));
  EXPECT_THAT(ends_ms(simulate(pair(11, {0.3, 0.4}), {}, "predictive")), ElementsAre(10, 20));
  // What asks for little beside it slows nobody.
  EXPECT_THAT(ends_ms(simulate(pair(10, {0.7, 0.1}), {}, "predictive")), ElementsAre(10, 10));
  // `iteration` asks nobody: both compute at once.
  EXPECT_THAT(ends_ms(simulate(pair(11, {0.3, 0.4}), {}, "iteration")), ElementsAre(12, 12));
}

// Whether fill holds a background step back after realtime runs that miss their goal beside background work.
bool holds_background(int misses_without_it_before) {
  JobState urgent{.id = 0, .options = {.name = "urgent", .priority = Priority::realtime, .goal_ns = kMs}};
  JobState batch{.id = 1, .options = {.name = "batch", .priority = Priority::background}};
  const std::unique_ptr<Policy> fill = make_fill();
  DeviceState device{.preempts = true};
  Run step{.number = 1, .job = &batch};
  const auto miss = [&](std::int64_t number) {
    Run run{.number = number, .job = &urgent, .arrival_ns = device.now_ns};
    fill->run_arrived(device, run);
    device.now_ns += 2 * kMs;
    fill->run_ended(device, run);
  };
  for (int i = 0; i < misses_without_it_before; ++i) miss(2 + i);
  device.runs.push_back(&step);
  step.computes = true;
  for (int i = 0; i < 5; ++i) miss(1000 + i);
  step.computes = false;
  step.measured_ns = kMs;
  fill->step_ended(device, step);
  step.waits = true;
  return fill->next(device) == nullptr;
}

TEST(Policies, FillBlamesBackgroundForMissesThatComeWithItAlone) {
  EXPECT_TRUE(holds_background(0));
  EXPECT_FALSE(holds_background(50));
}

TEST(Policies, NobodyStarves) {
  Trace trace{.seed = 3};
  for (int i = 0; i < 5; ++i) {
    trace.jobs.push_back(job(("job " + std::to_string(i)).c_str(), Priority::standard, {1, 2, 1}, closed(50, i)));
    trace.jobs.back().options.weight = i + 1;
  }
  for (const std::string& policy : policy_names()) {
    const SimulationOutcome outcome = simulate(trace, {}, policy);
    for (const JobOutcome& each : outcome.jobs) EXPECT_EQ(each.runs, 50) << policy << ' ' << each.name;
    EXPECT_LE(outcome.busy_ns, outcome.makespan_ns) << policy;
  }
}

TEST(Policies, EqualSeedsGiveEqualOutcomes) {
  Trace trace{
      .seed = 7,
      .jobs = {job("a", Priority::realtime, {1}, {.kind = Arrivals::Kind::poisson, .requests = 500, .rate = 300}),
               job("b", Priority::background, {2, 3}, closed(100))}};
  trace.jobs[0].options.goal_ns = 5 * kMs;
  for (const std::string& policy : policy_names()) {
    const SimulationOutcome first = simulate(trace, {}, policy), second = simulate(trace, {}, policy);
    EXPECT_EQ(ends_ms(first), ends_ms(second)) << policy;
    EXPECT_EQ(first.jobs[0].p99_ns, second.jobs[0].p99_ns) << policy;
  }
}

// A request of one step of 1 ms, of 3 ms where others computed since the last one or it was long ago.
TEST(Simulation, StepsAreColdAfterOthersAndAfterRest) {
  Trace trace{.jobs = {job("request", Priority::realtime, {1}, at({0, 1, 2, 20, 30, 40}))}};
  trace.jobs[0].steps[0].cold_ns = 3 * kMs;
  // Cold are the first one and those after rests of 15, 7 and 7 ms; the next two wait for the first.
  EXPECT_EQ(simulate(trace, {.preempts = true}, "fill").busy_ns, (4 * 3 + 2) * kMs);
  trace.jobs[0].arrivals = at({0, 3, 6});
  EXPECT_EQ(simulate(trace, {.preempts = true}, "fill").busy_ns, (3 + 2) * kMs);
  trace.jobs.push_back(job("training", Priority::background, {1}, closed(20)));
  const SimulationOutcome beside = simulate(trace, {.preempts = true}, "fill");
  EXPECT_EQ(beside.jobs[0].device_ns, (3 + 1 + 3) * kMs) << "between 4 and 6 ms the training computes";
  EXPECT_EQ(beside.jobs[1].device_ns, 20 * kMs) << "whose steps have one length";
}

TEST(Policies, UnknownNamesListAll) {
  EXPECT_THAT([] { make_policy("fairest"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("fifo, fair, iteration, headroom, fill, predictive")));
}

}  // namespace
}  // namespace tessera::share::policies_test
