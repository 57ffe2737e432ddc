#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/threads/clock.h"
#include "base/threads/idle_scheduling.h"
#include "base/threads/thread_pool.h"
#include "models/models.h"
#include "runtime/session/random_inputs.h"
#include "support/expect_error.h"
#include "support/file_size_limit.h"
#include "support/sanitized.h"
#include "support/temporary_folder.h"
#include "tessera/share.h"
#include "tessera/train.h"

namespace tessera::share::arbiter_test {
namespace {

constexpr std::int64_t kMs = 1'000'000;

Model small_net() {
  return Model(std::make_shared<ir::Graph>(models::build_model("lenet5", {.dims = {{"batch", 1}}})));
}

bool same_bits(const NamedValues& a, const NamedValues& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    const Tensor &s = x.second.tensor(), &t = y.second.tensor();
    return s.bytes() == t.bytes() && std::memcmp(s.raw(), t.raw(), static_cast<std::size_t>(s.bytes())) == 0;
  });
}

TEST(Arbiter, ATrainingIsAJob) {
  const auto train = [](const TrainingHooks& hooks) {
    TrainingConfig config;
    config.model.builder = "mlp";
    config.data.train_arrays = {{"x", Tensor(DType::f32, {64, 784})}, {"y", Tensor(DType::i64, {64})}};
    std::ranges::fill(config.data.train_arrays.at("x").mutable_values<float>(), 0.5f);
    std::ranges::fill(config.data.train_arrays.at("y").mutable_values<std::int64_t>(), std::int64_t{3});
    config.steps = 6;
    Trainer trainer(config);
    return trainer.run(hooks).loss;
  };
  Arbiter arbiter;
  Job job = arbiter.add_job({.name = "training", .priority = Priority::background});
  TrainingHooks hooks;
  hooks.run = [&](Session& session, const NamedValues& inputs, const std::vector<OutputRequest>& outputs,
                  const RunOptions& how) { return job.run(session, inputs, outputs, how); };
  EXPECT_EQ(train(hooks), train({}));
  EXPECT_EQ(job.report().runs, 6);
}

TEST(Arbiter, RunsGiveTheSameBitsUnderEveryPolicy) {
  const Model model = small_net();
  Session session(model);
  const NamedValues inputs = runtime::random_inputs(model, 1);
  const NamedValues expected = session.run(inputs);
  for (const std::string& policy : policy_names()) {
    Arbiter arbiter({.policy = policy});
    Job realtime = arbiter.add_job({.name = "realtime", .priority = Priority::realtime, .goal_ns = 50 * kMs});
    Job standard = arbiter.add_job({.name = "standard"});
    Job background = arbiter.add_job({.name = "background", .priority = Priority::background});
    std::atomic<int> different{0};
    std::vector<std::thread> threads;
    for (Job* job : {&realtime, &standard, &background, &background}) {
      threads.emplace_back([&, job] {
        for (int i = 0; i < 25; ++i) different += !same_bits(job->run(session, inputs), expected);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(different, 0) << policy;
    EXPECT_EQ(realtime.report().runs, 25) << policy;
    EXPECT_EQ(background.report().runs, 50) << policy;
    EXPECT_GT(realtime.report().device_ns, 0) << policy;
    // These let runs compute at once, and device time then counts for the highest class among them.
    const bool one_at_a_time = policy != "iteration" && policy != "predictive";
    EXPECT_TRUE(background.report().device_ns > 0 || !one_at_a_time) << policy;
    EXPECT_LE(background.report().p50_ns, background.report().p99_ns) << policy;
  }
}

TEST(Arbiter, ARealtimeRunNeedNotWaitForChunksOfBackground) {
  Arbiter arbiter;
  if (!base::background_idles()) GTEST_SKIP() << "this process may not raise a thread from SCHED_IDLE";
  Job realtime = arbiter.add_job({.name = "realtime", .priority = Priority::realtime});
  Job background = arbiter.add_job({.name = "background", .priority = Priority::background});
  base::ThreadPool& pool = base::ThreadPool::process();
  std::atomic<int> begun{0};
  std::atomic<bool> ran{false}, in_time{true};
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(20 * test::kPatience);
  std::thread thread([&] {
    background.run("chunks", [&] {
      pool.parallel_for(pool.cores(), 1, 0, [&](std::int64_t, std::int64_t) {
        ++begun;
        while (!ran && in_time) in_time = std::chrono::steady_clock::now() < last;
      });
    });
  });
  while (begun < pool.cores() && in_time) std::this_thread::yield();
  realtime.run("quick", [&] { ran = true; });
  thread.join();
  EXPECT_TRUE(in_time) << "it ran only when a chunk was over";
}

TEST(Arbiter, AFailedRunFreesItsPlace) {
  const Model model = small_net();
  Session session(model);
  Arbiter arbiter({.policy = "fifo"});
  Job bad = arbiter.add_job({.name = "bad"}), good = arbiter.add_job({.name = "good"});
  test::expect_error_containing(ErrorKind::invalid_argument, "is missing", [&] { bad.run(session, {}); });
  EXPECT_THROW(bad.run("load", [] { throw std::runtime_error("no such file"); }), std::runtime_error);
  good.run(session, runtime::random_inputs(model, 1));
  EXPECT_EQ(bad.report().failed_runs, 2);
  EXPECT_EQ(bad.report().runs, 0);
  EXPECT_EQ(good.report().runs, 1);
}

TEST(Arbiter, ACancelledRunNeedNotHaveItsTurn) {
  const Model model = small_net();
  Session session(model);
  Arbiter arbiter({.policy = "fifo"});
  Job holder = arbiter.add_job({.name = "holder"}), waiter = arbiter.add_job({.name = "waiter"});
  std::atomic<bool> holds{false}, ends{false};
  std::thread thread([&] {
    holder.run("hold", [&] {
      holds = true;
      while (!ends) std::this_thread::yield();
    });
  });
  while (!holds) std::this_thread::yield();
  Cancellation cancellation;
  cancellation.cancel();
  test::expect_error_containing(ErrorKind::cancelled, "", [&] {
    waiter.run(session, runtime::random_inputs(model, 1), {.cancellation = &cancellation});
  });
  ends = true;
  thread.join();
}

// Functions as jobs of a virtual clock: the arbiter's code with threads, and times that are exact.
struct VirtualJob {
  const char* name;
  double weight;
  std::int64_t step_ns;
};

std::vector<std::int64_t> device_times(const std::string& policy, const std::vector<VirtualJob>& given,
                                       std::int64_t until_ns) {
  base::VirtualClock clock(1);
  Arbiter arbiter({.policy = policy, .device = "null", .clock = &clock});
  std::vector<Job> jobs;
  for (const VirtualJob& job : given) jobs.push_back(arbiter.add_job({.name = job.name, .weight = job.weight}));
  std::vector<std::function<void()>> bodies;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    bodies.push_back([&, i] {
      while (clock.now_ns() < until_ns)
        jobs[i].run("step", [&] { clock.sleep_until(clock.now_ns() + given[i].step_ns); });
    });
  }
  clock.run(bodies);
  std::vector<std::int64_t> times;
  for (const Job& job : jobs) times.push_back(job.report().device_ns);
  return times;
}

TEST(Arbiter, FairDividesTimeByWeightWhateverTheLengthOfSteps) {
  const std::vector<std::int64_t> times =
      device_times("fair", {{"short", 30, kMs / 10}, {"long", 70, 5 * kMs}}, 4000 * kMs);
  const double share = static_cast<double>(times[0]) / static_cast<double>(times[0] + times[1]);
  EXPECT_NEAR(share, 0.3, 0.02);
  EXPECT_GE(times[0] + times[1], 4000 * kMs);
}

TEST(Arbiter, LearnsHowLongFunctionsTake) {
  base::VirtualClock clock(1);
  Arbiter arbiter({.policy = "fill", .device = "null", .clock = &clock});
  Job job = arbiter.add_job({.name = "loader"});
  clock.run({[&] {
    for (int i = 0; i < 50; ++i) {
      job.run("decode", [&] { clock.sleep_until(clock.now_ns() + 3 * kMs); });
      job.run("augment", [&] { clock.sleep_until(clock.now_ns() + 2 * kMs); });
    }
  }});
  EXPECT_EQ(job.report().device_ns, 250 * kMs);
  EXPECT_EQ(job.report().p99_ns, 3 * kMs);
  EXPECT_LT(job.report().prediction_error, 0.01);
}

TEST(Arbiter, MemoryIsChargedToJobs) {
  Arbiter arbiter({.memory_bytes = 1000});
  Job search = arbiter.add_job({.name = "search", .guarantee_bytes = 600});
  {
    Job training = arbiter.add_job({.name = "training", .limit_bytes = 300});
    training.charge(300, "activations");
    EXPECT_EQ(training.report().memory_bytes, 300);
    test::expect_error_containing(ErrorKind::over_budget, "job 'training' asked for 1 B for gradients",
                                  [&] { training.charge(1, "gradients"); });
  }
  search.charge(1000, "weights");  // what the job held that has left is free
  search.release(1000);
  EXPECT_EQ(search.report().peak_memory_bytes, 1000);
}

Model net_of_batch(std::int64_t batch) {
  return Model(std::make_shared<ir::Graph>(models::build_model("lenet5", {.dims = {{"batch", batch}}})));
}

// A background stream of runs beside bursts of realtime runs, whose arenas do not fit at once.
struct BesideABurst {
  Model large = net_of_batch(48), small = net_of_batch(24);
  Session background_session{large}, realtime_session{small};
  NamedValues background_inputs = runtime::random_inputs(large, 1), realtime_inputs = runtime::random_inputs(small, 2);
  NamedValues background_expected = background_session.run(background_inputs);
  NamedValues realtime_expected = realtime_session.run(realtime_inputs);
  std::int64_t background_bytes = background_session.plan_memory(background_inputs).arena_bytes;
  std::int64_t realtime_bytes = realtime_session.plan_memory(realtime_inputs).arena_bytes;
  Arbiter arbiter;
  Job realtime, background;

  BesideABurst(const std::string& policy, const std::string& folder)
      : arbiter({.policy = policy, .memory_bytes = background_bytes + realtime_bytes / 2, .spill_folder = folder}),
        realtime(
            arbiter.add_job({.name = "search", .priority = Priority::realtime, .guarantee_bytes = realtime_bytes})),
        background(arbiter.add_job({.name = "training", .priority = Priority::background})) {}

  // Until `enough`, which sees the jobs, or 20 s have passed (under a sanitizer 200 s).
  void run(const std::function<bool()>& enough) {
    std::atomic<bool> stop{false};
    std::atomic<int> different{0};
    std::thread thread([&] {
      while (!stop) {
        try {
          different += !same_bits(background.run(background_session, background_inputs), background_expected);
        } catch (const Error& error) {
          message = error.what();
        }
      }
    });
    const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(20 * test::kPatience);
    while (!enough() && std::chrono::steady_clock::now() < last) {
      for (int i = 0; i < 3; ++i)
        different += !same_bits(realtime.run(realtime_session, realtime_inputs), realtime_expected);
      const std::int64_t runs = background.report().runs + background.report().failed_runs;
      while (background.report().runs + background.report().failed_runs == runs &&
             std::chrono::steady_clock::now() < last)
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    stop = true;
    thread.join();
    EXPECT_EQ(different, 0);
    EXPECT_TRUE(enough()) << "in time";
  }

  std::string message;  // of the background's latest error
};

TEST(Arbiter, ABackgroundRunSpillsForABurstAndGetsItsMemoryBack) {
  const test::TemporaryFolder folder;
  for (const std::string& policy : policy_names()) {
    SCOPED_TRACE(policy);
    BesideABurst both(policy, folder.path().string());
    both.run([&] {
      return both.background.report().spills >= 3 && both.background.report().runs >= 5 &&
             both.realtime.report().runs >= 5;
    });
    EXPECT_EQ(both.message, "");
    const JobReport realtime = both.realtime.report(), background = both.background.report();
    EXPECT_EQ(realtime.failed_runs, 0);
    EXPECT_EQ(realtime.memory_bytes, 0);
    EXPECT_EQ(background.memory_bytes, 0);
    EXPECT_EQ(realtime.peak_memory_bytes, both.realtime_bytes);
    EXPECT_EQ(background.peak_memory_bytes, both.background_bytes);
    EXPECT_GT(background.spilled_bytes, 0);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Arbiter, AFullDiskFailsTheRunThatSpillsAndNobodyElse) {
  const test::TemporaryFolder folder;
  const test::FileSizeLimit full(4096);
  BesideABurst both("fill", folder.path().string());
  both.run([&] { return both.background.report().failed_runs >= 2 && both.background.report().runs >= 1; });
  EXPECT_NE(both.message.find("of a run's memory in '" + folder.path().string() + "'"), std::string::npos)
      << both.message;
  EXPECT_EQ(both.realtime.report().failed_runs, 0);
  EXPECT_EQ(both.background.report().memory_bytes, 0);
}

TEST(Arbiter, ARunThatNeverFitsIsRefusedWithItsNeighboursUnharmed) {
  const Model model = small_net();
  Session session(model);
  const NamedValues inputs = runtime::random_inputs(model, 1);
  Arbiter arbiter({.memory_bytes = 2 * session.plan_memory(inputs).arena_bytes});
  Job small = arbiter.add_job({.name = "small"});
  Job limited = arbiter.add_job({.name = "limited", .limit_bytes = 100});
  test::expect_error_containing(ErrorKind::over_budget, "job 'limited' asked for",
                                [&] { limited.run(session, inputs); });
  small.run(session, inputs);
  EXPECT_EQ(limited.report().failed_runs, 1);
  EXPECT_EQ(limited.report().memory_bytes, 0);
  EXPECT_EQ(small.report().runs, 1);
  EXPECT_EQ(small.report().peak_memory_bytes, session.plan_memory(inputs).arena_bytes);
}

// A job whose functions throw, whose requests exceed what there is and whose runs have bad inputs.
TEST(Arbiter, NeighboursLoseNothingByAJobThatFailsInEveryWay) {
  const Model model = small_net();
  Session session(model);
  const NamedValues inputs = runtime::random_inputs(model, 1);
  const NamedValues expected = session.run(inputs);
  for (const std::string& policy : policy_names()) {
    SCOPED_TRACE(policy);
    Arbiter arbiter({.policy = policy, .memory_bytes = 64 << 20});
    Job bad = arbiter.add_job({.name = "bad", .limit_bytes = 1 << 20});
    Job good = arbiter.add_job({.name = "good", .guarantee_bytes = 32 << 20});
    std::atomic<bool> stop{false};
    std::atomic<int> errors{0};
    std::thread thread([&] {
      while (!stop || errors < 8) {
        try {
          switch (errors % 4) {
            case 0:
              bad.run("throws", [] { throw std::runtime_error("a bug of the user's"); });
              break;
            case 1:
              bad.charge(2 << 20, "a batch");
              break;
            case 2:
              bad.run(session, {{"no such input", Tensor::scalar(1.0f)}});
              break;
            case 3:
              bad.run("throws no error", [] { throw 7; });
              break;
          }
          ADD_FAILURE() << "nothing was thrown";
        } catch (...) {
          ++errors;
        }
      }
    });
    for (int i = 0; i < 30 || errors < 8; ++i) EXPECT_TRUE(same_bits(good.run(session, inputs), expected));
    good.charge(30 << 20, "weights");
    stop = true;
    thread.join();
    good.release(30 << 20);
    EXPECT_EQ(good.report().failed_runs, 0);
    EXPECT_EQ(bad.report().memory_bytes, 0);
    EXPECT_EQ(good.report().memory_bytes, 0);
  }
}

TEST(Arbiter, RefusesOptionsThatMakeNoSense) {
  test::expect_error_containing(ErrorKind::invalid_argument, "there is no policy 'best'",
                                [] { Arbiter arbiter({.policy = "best"}); });
  Arbiter arbiter({.memory_bytes = 100});
  test::expect_error_containing(ErrorKind::invalid_argument, "needs a name", [&] { arbiter.add_job({}); });
  test::expect_error_containing(ErrorKind::invalid_argument, "weight 0",
                                [&] { arbiter.add_job({.name = "a", .weight = 0}); });
  test::expect_error_containing(ErrorKind::over_budget, "only 100 B",
                                [&] { arbiter.add_job({.name = "a", .guarantee_bytes = 101}); });
}

}  // namespace
}  // namespace tessera::share::arbiter_test
