// Runs of different classes beside each other, planning beside running, and runs in virtual time.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/numbers/philox.h"
#include "base/threads/clock.h"
#include "base/threads/thread_pool.h"
#include "models/models.h"
#include "ops/core/builder.h"
#include "runtime/session/random_inputs.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "tessera/session.h"

namespace tessera::runtime::scheduling_test {
namespace {

using base::ThreadPool;
using base::VirtualClock;

constexpr auto kStressTime = std::chrono::milliseconds(700);

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.bytes())) == 0;
}

Model net(std::string_view name, std::map<std::string, std::int64_t> dims) {
  return Model(std::make_shared<ir::Graph>(models::build_model(name, {.dims = std::move(dims)})));
}

// y = relu(conv(x)) of any batch: two kernels can do the convolution.
Model convolution() {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId x =
      graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 24, 16, 16}));
  const ir::ValueId w = builder.constant(test::random_tensor(DType::f32, {20, 24, 3, 3}, 1));
  const ir::ValueId y =
      builder.add("Relu", {builder.add("Conv", {x, w}, {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}})});
  graph->value(y).name = "y";
  graph->add_output(y);
  return Model(graph);
}

NamedValues batch_of(std::int64_t size) {
  return {{"x", test::random_tensor(DType::f32, {size, 24, 16, 16}, 2)}};
}

// A chain of steps that stay apart.
Model chain(int steps) {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  ir::ValueId y = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{8}));
  for (int i = 0; i < steps; ++i) y = builder.add(i % 2 == 0 ? "Sigmoid" : "Tanh", {y});
  graph->value(y).name = "y";
  graph->add_output(y);
  return Model(graph);
}
const SessionOptions kStepsApart{.threads = 1, .without_passes = {"fuse_element_wise"}};
const NamedValues kEight{{"x", Tensor::from<float>({8}, {1, 2, 3, 4, 5, 6, 7, 8})}};

TEST(Scheduling, PreemptedRunsGiveTheSameBits) {
  struct Case {
    std::string_view net;
    std::map<std::string, std::int64_t> dims;
    DType precision;
  };
  for (const Case& each :
       {Case{"lenet5", {{"batch", 64}}, DType::undefined}, Case{"mobilenet_v3_small", {{"batch", 1}}, DType::undefined},
        Case{"bert_mini", {{"batch", 2}, {"seq", 64}}, DType::undefined},
        Case{"lstm", {{"batch", 1}, {"time", 12}}, DType::undefined},
        Case{"bert_mini", {{"batch", 1}, {"seq", 64}}, DType::bf16}}) {
    SCOPED_TRACE(each.net);
    const Model model = net(each.net, each.dims);
    Session session(model, {.precision = each.precision});
    const NamedValues inputs = random_inputs(model, 5);
    const NamedValues expected = session.run(inputs);
    std::atomic<bool> stop{false};
    std::atomic<int> preempted{0};
    std::thread urgent([&] {
      base::Philox random(11);
      while (!stop) {
        const ThreadPool::CoreLease lease(ThreadPool::process(), Priority::realtime, Clock::steady(),
                                          static_cast<int>(random.next_integer(0, 2)));
        ++preempted;
        std::this_thread::sleep_for(std::chrono::microseconds(random.next_integer(10, 200)));
      }
    });
    int runs = 0;
    const auto end = std::chrono::steady_clock::now() + kStressTime / 3;
    for (; runs < 2 || std::chrono::steady_clock::now() < end; ++runs) {
      const Priority priority = runs % 2 == 0 ? Priority::standard : Priority::background;
      const NamedValues found = session.run(inputs, {.priority = priority});
      for (const auto& [name, value] : expected)
        ASSERT_TRUE(same_bits(value.tensor(), found.at(name).tensor())) << name << " in run " << runs;
    }
    stop = true;
    urgent.join();
    EXPECT_GT(preempted, 0);
  }
}

// Planning is held in the middle by the function that is told of tuning's progress. Meanwhile runs with plans go on,
// all cores can be had, and a run that waits for the same plan holds none.
TEST(Scheduling, PlanningBlocksNoRunThatHasAPlan) {
  const test::TemporaryFolder folder;
  std::mutex mutex;
  std::condition_variable changed;
  bool hold = false, held = false;
  SessionOptions options{.tune = true, .tuning_file = (folder / "tuning.json").string()};
  options.tuning_progress = [&](std::string_view, double) {
    std::unique_lock lock(mutex);
    held = held || hold;
    changed.notify_all();
    changed.wait(lock, [&] { return !hold; });
  };
  Session session(convolution(), options), other(convolution());
  const NamedValues one = batch_of(1), three = batch_of(3);
  const Tensor expected = session.run(one).at("y").tensor();
  {
    const std::lock_guard lock(mutex);
    hold = true;
  }
  std::atomic<int> done{0};
  const auto run_three = [&] {
    EXPECT_EQ(session.run(three).at("y").tensor().shape(), (Shape{3, 20, 16, 16}));
    ++done;
  };
  std::thread planner(run_three);
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return held; });
  }
  std::thread waiter(run_three);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(same_bits(session.run(one).at("y").tensor(), expected));
  EXPECT_EQ(other.run(one).at("y").tensor().shape(), expected.shape());
  {
    ThreadPool& pool = ThreadPool::process();
    const ThreadPool::CoreLease all(pool, Priority::realtime);
    for (int wait = 0; all.cores() < pool.cores() && wait < 5000; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(all.cores(), pool.cores());
  }
  EXPECT_EQ(done, 0);
  {
    const std::lock_guard lock(mutex);
    hold = false;
    changed.notify_all();
  }
  planner.join();
  waiter.join();
  EXPECT_EQ(done, 2);
}

// Holds every run until the clock has passed the predicted time of its step.
class VirtualDevice final : public StepGate {
 public:
  VirtualDevice(std::string& events, char name, std::uint64_t seed) : events_(events), name_(name), random_(seed) {}
  bool may_pass(const StepInfo&) override { return std::exchange(computed_, false); }
  void wait(const StepInfo& step) override {
    events_ += name_;
    step.clock->sleep_until(step.clock->now_ns() + random_.next_integer(1, 3) * 100);
    computed_ = true;
  }

 private:
  std::string& events_;
  char name_;
  base::Philox random_;
  bool computed_ = false;
};

std::string events_of_sessions(std::uint64_t seed) {
  VirtualClock clock(seed);
  std::string events;
  const Model model = chain(6);
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::function<void()>> bodies;
  for (int i = 0; i < 5; ++i) {
    sessions.push_back(std::make_unique<Session>(model, kStepsApart));
    bodies.push_back([&, i] {
      VirtualDevice gate(events, static_cast<char>('a' + i), seed + static_cast<std::uint64_t>(i));
      for (int run = 0; run < 4; ++run)
        sessions[static_cast<std::size_t>(i)]->run(
            kEight, {.gate = &gate, .priority = static_cast<Priority>(i % 3), .clock = &clock});
    });
  }
  clock.run(bodies);
  return events + " " + std::to_string(clock.now_ns());
}

TEST(Scheduling, EqualSeedsGiveEqualOrdersInVirtualTime) {
  const std::string first = events_of_sessions(3);
  EXPECT_EQ(std::count(first.begin(), first.end(), 'a'), 4 * 6) << first;
  for (int i = 0; i < 5; ++i) ASSERT_EQ(events_of_sessions(3), first);
  EXPECT_NE(events_of_sessions(4), first);
}

TEST(Scheduling, LimitsAndTimingsCountInTheRunsClock) {
  VirtualClock clock;
  Session session(chain(6), kStepsApart);
  std::string events;
  VirtualDevice gate(events, 'a', 1);
  std::vector<StepTiming> timings;
  clock.run({[&] { session.run(kEight, {.timings = &timings, .gate = &gate, .clock = &clock}); }});
  ASSERT_EQ(timings.size(), 6u);
  EXPECT_EQ(timings.back().start_ns, clock.now_ns());
  EXPECT_EQ(timings.back().duration_ns, 0);
  // Steps take 100 to 300 ns of virtual time.
  test::expect_error(ErrorKind::over_budget, "the run takes longer than its limit of 500 ns",
                     [&] { session.run(kEight, {.time_limit_ns = 500, .gate = &gate, .clock = &clock}); });
  session.run(kEight, {.time_limit_ns = 6 * 300, .gate = &gate, .clock = &clock});
}

class ObservingGate final : public StepGate {
 public:
  bool may_pass(const StepInfo& step) override {
    EXPECT_EQ(step.priority, Priority::background);
    EXPECT_EQ(step.clock, &Clock::steady());
    EXPECT_EQ(step.depth, 0);
    ++steps;
    return true;
  }
  void wait(const StepInfo&) override {}
  int steps = 0;
};

TEST(Scheduling, AGateIsToldTheClassAndTheClock) {
  Session session(chain(3), kStepsApart);
  ObservingGate gate;
  session.run(kEight, {.gate = &gate, .priority = Priority::background});
  EXPECT_EQ(gate.steps, 3);
}

// Sessions of all classes run, plan new shapes, are stopped and held, all at once.
TEST(Scheduling, StandsStress) {
  const Model model = convolution();
  Session shared(model), own(model, {.max_cached_plans = 2});
  const Tensor expected = shared.run(batch_of(2)).at("y").tensor();
  std::atomic<bool> stop{false};
  std::atomic<int> runs{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      base::Philox random(29, static_cast<std::uint64_t>(t));
      while (!stop) {
        Session& session = t % 2 == 0 ? shared : own;
        const std::int64_t size = random.next_integer(1, 4);
        const NamedValues inputs = batch_of(size);
        std::string events;
        VirtualDevice gate(events, 'x', random.next_u64());
        Cancellation cancellation;
        if (random.next_integer(0, 7) == 0) cancellation.cancel();
        RunOptions options{.cancellation = &cancellation, .priority = static_cast<Priority>(t % 3)};
        if (random.next_integer(0, 3) == 0) options.gate = &gate;
        try {
          const Tensor y = session.run(inputs, options).at("y").tensor();
          EXPECT_EQ(y.shape()[0], size);
          EXPECT_TRUE(size != 2 || same_bits(y, expected));
          ++runs;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::cancelled) << error.what();
        }
      }
    });
  }
  std::this_thread::sleep_for(kStressTime);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(runs, 0);
}

}  // namespace
}  // namespace tessera::runtime::scheduling_test
