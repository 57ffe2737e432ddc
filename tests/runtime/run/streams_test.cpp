// Plans whose steps are divided among streams, on the simulated device, which runs each stream on a thread of its own
// and reports work on the same bytes that no event orders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "backends/backend_table.h"
#include "backends/device_activity.h"
#include "backends/simulated/simulated_device.h"
#include "ir/text.h"
#include "runtime/memory/device_blocks.h"
#include "runtime/session/environment.h"
#include "runtime/session/random_inputs.h"
#include "support/error_of.h"
#include "support/random_graph.h"
#include "tessera/session.h"

namespace tessera::runtime::streams_test {
namespace {

using backends::simulated::SimulatedDevice;

// A device of its own for each call: the counts and the clock of a device are shared.
std::string device_name(const std::string& options) {
  static int number = 7000;
  return "simulated:t4,number=" + std::to_string(number++) + options;
}

// A model on a simulated device, without passes, beside the host device whose kernels it computes by.
class Runs {
 public:
  Runs(const std::string& text, const std::string& options) : Runs(ir::parse(text), options) {}
  Runs(ir::Graph graph, const std::string& options)
      : name_(device_name(options)),
        device_(dynamic_cast<const SimulatedDevice&>(backends::find_device(name_))),
        model_(std::make_shared<const ir::Graph>(std::move(graph))) {
    SessionOptions session_options;
    for (const passes::Pass& pass : passes::all_passes()) session_options.without_passes.emplace_back(pass.name);
    session_options.device = name_;
    environment_ = make_environment(model_, session_options);
    program_ = make_program(model_, session_options, environment_);
    session_options.device = options.find("compute=cpu") != std::string::npos ? "cpu" : "reference";
    host_ = std::make_unique<Session>(model_, session_options);
  }

  NamedValues inputs(std::uint64_t seed) const { return random_inputs(model_, seed); }
  // Whoever changes it plants a fault.
  plan::Plan& plan(const NamedValues& inputs) {
    kept_ = program_->plan_for(ordered(inputs));
    return const_cast<plan::Plan&>(*kept_->plan);
  }
  plan::Plan& plan() { return plan(inputs(1)); }
  std::vector<Value> run(const NamedValues& inputs, bool capture = false) {
    RunControl control;
    control.resources = {.host = {&base::ThreadPool::process(), 0}, .allocator = environment_.results.get()};
    control.capture = capture;
    return program_->run(ordered(inputs), control);
  }
  void expect_bits_of_host(const NamedValues& inputs, bool capture = false) {
    const NamedValues expected = host_->run(inputs);
    const std::vector<Value> got = run(inputs, capture);
    for (std::size_t k = 0; k < got.size(); ++k) {
      const std::string& name = model_.graph().value(model_.graph().outputs()[k]).name;
      EXPECT_TRUE(identical(got[k].tensor(), expected.at(name).tensor())) << name;
    }
  }
  // The time on the device's clock that a run takes.
  std::int64_t duration_ns(bool capture = false) {
    const Clock& clock = device_.timeline().clock();
    const NamedValues values = inputs(1);
    for (int warm = 0; warm < 2; ++warm) run(values, capture);
    const std::int64_t begin = clock.now_ns();
    run(values, capture);
    return clock.now_ns() - begin;
  }
  const SimulatedDevice& device() const { return device_; }
  backends::DeviceActivity activity() const { return device_.activity(); }

 private:
  std::vector<Value> ordered(const NamedValues& inputs) const {
    std::vector<Value> values;
    for (const ir::ValueId id : model_.graph().inputs()) values.push_back(inputs.at(model_.graph().value(id).name));
    return values;
  }

  const std::string name_;
  const SimulatedDevice& device_;
  Model model_;
  ProgramEnvironment environment_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Session> host_;
  std::shared_ptr<PreparedPlan> kept_;
};

// Two branches of products of the same input, which meet at the end.
constexpr const char* kBranches =
    "graph { input %x : f32[16, 16] %a0 = Relu (%x) %a1 = MatMul (%a0, %x) %a2 = MatMul (%a1, %x) "
    "%b0 = Neg (%x) %b1 = MatMul (%b0, %x) %b2 = MatMul (%b1, %x) %y = Add (%a2, %b2) output %y }";

std::set<std::int32_t> streams_of_kernels(const plan::Plan& plan) {
  std::set<std::int32_t> streams;
  for (const plan::Step& step : plan.steps) {
    if (step.kind == plan::StepKind::kernel) streams.insert(step.stream);
  }
  return streams;
}

TEST(Streams, BranchesAreDividedAmongThem) {
  Runs runs(kBranches, "");
  EXPECT_EQ(streams_of_kernels(runs.plan()).size(), 2u) << print_plan(runs.plan(), false);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) runs.expect_bits_of_host(runs.inputs(seed));
}

TEST(Streams, ADeviceOfOneStreamHasThePlanItHad) {
  Runs runs(kBranches, ",streams=1");
  EXPECT_EQ(runs.plan().streams, 1);
  for (const plan::Step& step : runs.plan().steps) {
    EXPECT_EQ(step.stream, 0);
    EXPECT_TRUE(step.stream_waits.empty());
  }
  EXPECT_EQ(print_plan(runs.plan(), false).find("stream"), std::string::npos);
  runs.expect_bits_of_host(runs.inputs(1));
}

TEST(Streams, AChainStaysOnOne) {
  Runs runs("graph { input %x : f32[16, 16] %a = MatMul (%x, %x) %b = Relu (%a) %y = MatMul (%b, %x) output %y }", "");
  EXPECT_EQ(runs.plan().streams, 1) << print_plan(runs.plan(), false);
}

// Recorded once for all inputs, with its branches.
TEST(Streams, ASegmentIsRecordedWithAllOfThem) {
  Runs runs(kBranches, "");
  runs.expect_bits_of_host(runs.inputs(1), true);
  for (std::uint64_t seed = 2; seed <= 6; ++seed) {
    const backends::DeviceActivity before = runs.activity();
    runs.expect_bits_of_host(runs.inputs(seed), true);
    const backends::DeviceActivity done = runs.activity() - before;
    EXPECT_EQ(done.launches, 1);
    EXPECT_EQ(done.replays, 1);
    EXPECT_EQ(done.instantiations, seed == 2 ? 1 : 0);
  }
}

// A recording keeps its addresses; one with other addresses is the same recording, updated.
TEST(Streams, ARecordingIsUpdatedWhenOnlyAddressesChange) {
  Runs runs(kBranches, "");
  for (std::uint64_t seed = 1; seed <= 3; ++seed) runs.expect_bits_of_host(runs.inputs(seed), true);
  const backends::DeviceActivity before = runs.activity();
  trim_device_blocks();
  void* const block = runs.device().memory().allocate(1 << 16);  // where the arena was
  for (std::uint64_t seed = 4; seed <= 6; ++seed) runs.expect_bits_of_host(runs.inputs(seed), true);
  runs.device().memory().free(block);
  const backends::DeviceActivity done = runs.activity() - before;
  EXPECT_EQ(done.updates, 1);
  EXPECT_EQ(done.instantiations, 0);
  EXPECT_EQ(done.replays, 3);
}

// More than the pinned memory that a device may have: copies go piece by piece, each on the stream of its direction.
TEST(Streams, CopiesThatNoStagingMemoryTakes) {
  Runs runs(
      "graph { input %x : f32[3072, 3072] input %z : f32[3072, 3072] %a = Relu (%x) %b = Neg (%z) output %a, %b }",
      ",compute=cpu");
  EXPECT_GT(runs.plan().streams, 1);
  EXPECT_GT(runs.plan().staging_bytes, std::int64_t{64} << 20);
  runs.expect_bits_of_host(runs.inputs(1), true);
}

// The checker of the simulated device finds each event that a plan leaves out, so it would find those that plans
// forget.
TEST(Streams, EachEventIsNeeded) {
  const std::size_t steps = Runs(kBranches, "").plan().steps.size();
  int planted = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    Runs runs(kBranches, "");
    if (runs.plan().steps[step].stream_waits.empty()) continue;
    runs.plan().steps[step].stream_waits.clear();
    const std::string error = test::error_of([&] { runs.run(runs.inputs(1)); });
    EXPECT_NE(error.find("of another stream"), std::string::npos) << step << ": " << error;
    ++planted;
  }
  EXPECT_GE(planted, 2);
}

// While the second input is on its way, products of the first one are computed.
TEST(Streams, CopiesOverlapKernels) {
  std::string text = "graph { input %x : f32[1024, 1024] input %w : f32[2048, 2048] %p0 = MatMul (%x, %x) ";
  for (int i = 1; i < 6; ++i) text += "%p" + std::to_string(i) + " = MatMul (%p" + std::to_string(i - 1) + ", %x) ";
  text += "%q = Relu (%w) output %p5, %q }";
  for (const bool capture : {false, true}) {
    const std::int64_t one = Runs(text, ",compute=none,streams=1").duration_ns(capture);
    const std::int64_t several = Runs(text, ",compute=none").duration_ns(capture);
    EXPECT_LT(static_cast<double>(several), 0.85 * static_cast<double>(one)) << capture << " " << several << " " << one;
    RecordProperty(capture ? "recorded" : "enqueued", std::to_string(several) + " of " + std::to_string(one) + " ns");
  }
}

// Kernels of the simulated device run one after the other, but their launches do not.
TEST(Streams, LaunchesOfBranchesOverlap) {
  const std::int64_t one = Runs(kBranches, ",compute=none,streams=1").duration_ns();
  const std::int64_t several = Runs(kBranches, ",compute=none").duration_ns();
  EXPECT_LT(static_cast<double>(several), 0.9 * static_cast<double>(one));
}

// Values that are large are kept apart only if this takes little more memory; events order what shares bytes.
TEST(Streams, LargeValuesShareTheArena) {
  const auto text = [](const char* type) {
    std::string graph = std::string("graph { input %x : ") + type + " ";
    for (const char* branch : {"a", "b", "c"}) {
      std::string last = "x";
      for (int i = 0; i < 6; ++i) {
        const std::string next = branch + std::to_string(i);
        graph += "%" + next + " = MatMul (%" + last + ", %x) ";
        last = next;
      }
    }
    return graph + "%s = Add (%a5, %b5) %y = Add (%s, %c5) output %y }";
  };
  const auto arena_bytes = [&](const char* type, const char* streams) {
    return Runs(text(type), std::string(",compute=none") + streams).plan().device_arena_bytes;
  };
  EXPECT_GT(arena_bytes("f32[64, 64]", ""), arena_bytes("f32[64, 64]", ",streams=1"));
  EXPECT_EQ(arena_bytes("f32[4096, 4096]", ""), arena_bytes("f32[4096, 4096]", ",streams=1"));
}

TEST(Streams, RandomGraphsHaveTheBitsOfTheReference) {
  int divided = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::GraphCase graph_case = test::random_graph(seed, 20);
    Runs runs(std::move(graph_case.graph), ",seed=" + std::to_string(seed));
    for (int run = 0; run < 4; ++run) runs.expect_bits_of_host(graph_case.inputs, run > 0);
    divided += runs.plan(graph_case.inputs).streams > 1 ? 1 : 0;
  }
  EXPECT_GT(divided, 20);
}

// Steps on the host, whose results go on in both branches.
TEST(Streams, StepsOnTheHostWaitForTheCopiesThatTheyRead) {
  Runs runs(
      "graph { input %x : f32[16, 16] input %z : f32[16, 16] %a = Relu (%x) %b = Neg (%z) %c = MatMul (%a, %z) "
      "%n = NonZero (%a) %d = MatMul (%b, %z) %m = NonZero (%d) %y = Add (%c, %d) output %n, %m, %y }",
      "");
  for (std::uint64_t seed = 1; seed <= 6; ++seed) runs.expect_bits_of_host(runs.inputs(seed), seed > 2);
}

constexpr const char* kTraining =
    "graph { variable %v = f32[2, 2] {1, 2, 3, 4} update %next_v variable %w = f32[2, 2] {5, 6, 7, 8} update %next_w "
    "input %x : f32[2, 2] %p = MatMul (%x, %v) %q = MatMul (%x, %w) %g = Tanh (%p) %h = Tanh (%q) "
    "%loss = Add (%g, %h) %next_v = Sub (%v, %g) %next_w = Sub (%w, %h) output %loss }";

TEST(Streams, ATrainingStepIsRecordedOnce) {
  Runs runs(kTraining, ",compute=cpu");
  EXPECT_EQ(streams_of_kernels(runs.plan()).size(), 2u) << print_plan(runs.plan(), false);
  EXPECT_EQ(runs.plan().written_over.size(), 2u);
  for (std::uint64_t step = 1; step <= 8; ++step) runs.expect_bits_of_host(runs.inputs(step), true);
  EXPECT_EQ(runs.activity().instantiations, 1);
}

// Whichever kernel fails, on whichever stream: variables are as before the step, or the error says that they are not.
TEST(Streams, AFailureOnAnyOfThemIsReported) {
  int failed = 0, whole = 0;
  for (int launch = 1; launch <= 12; ++launch) {
    SCOPED_TRACE("launch " + std::to_string(launch));
    Runs runs(kTraining, ",compute=cpu,fault=launch:" + std::to_string(launch));
    const NamedValues inputs = runs.inputs(1);
    const std::string error = test::error_of([&] { runs.run(inputs); });
    if (error.empty()) continue;
    ++failed;
    EXPECT_NE(error.find("launch " + std::to_string(launch) + " on device"), std::string::npos) << error;
    if (error.find("damaged") != std::string::npos) continue;
    ++whole;
    for (int again = 0; again < 2; ++again) runs.expect_bits_of_host(inputs);
  }
  EXPECT_EQ(failed, 7);
  EXPECT_EQ(whole, 5);
}

}  // namespace
}  // namespace tessera::runtime::streams_test
