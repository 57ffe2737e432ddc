// Runs on a device that is no host, whose queue does nothing until somebody waits for it: results are those of the
// kernels that it computes by, to the bit, wherever steps run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "backends/device_copies.h"
#include "backends/device_weights.h"
#include "ops/core/builder.h"
#include "runtime/memory/device_blocks.h"
#include "runtime/session/environment.h"
#include "runtime/session/random_inputs.h"
#include "support/error_of.h"
#include "support/pass_context.h"
#include "support/queued_device.h"
#include "support/random_graph.h"
#include "tessera/session.h"

namespace tessera::runtime::device_run_test {
namespace {

using test::QueuedDevice;

// Devices live until the process ends.
const QueuedDevice& new_device(std::set<std::string, std::less<>> lacks = {}, std::int64_t capacity = INT64_MAX) {
  static std::vector<std::unique_ptr<QueuedDevice>> devices;
  devices.push_back(std::make_unique<QueuedDevice>(std::move(lacks), capacity));
  return *devices.back();
}

// A program on a device that no table lists, and runs of it.
class OnDevice {
 public:
  OnDevice(ir::Graph graph, const QueuedDevice& device, bool all_passes = false)
      : model_(std::make_shared<const ir::Graph>(std::move(graph))) {
    SessionOptions options;
    if (!all_passes) {
      for (const passes::Pass& pass : passes::all_passes()) options.without_passes.emplace_back(pass.name);
    }
    environment_ = make_environment(model_, options);
    use_device(environment_, device);
    program_ = make_program(model_, options, environment_);
    cpu_ = std::make_unique<Session>(model_, options);
  }
  ~OnDevice() { trim_device_blocks(); }

  std::vector<Value> ordered(const NamedValues& inputs) const {
    std::vector<Value> values;
    for (const ir::ValueId id : model_.graph().inputs()) values.push_back(inputs.at(model_.graph().value(id).name));
    return values;
  }
  std::vector<Value> run(const std::vector<Value>& inputs, std::span<const Tensor> bound = {},
                         std::vector<StepTiming>* timings = nullptr, bool capture = false, std::uint64_t seed = 0) {
    RunControl control;
    control.resources = {
        .host = {&base::ThreadPool::process(), 0}, .seed = seed, .allocator = environment_.results.get()};
    control.bound = bound;
    control.timings = timings;
    control.capture = capture;
    return program_->run(inputs, control);
  }
  void trim() { program_->trim(); }
  std::shared_ptr<const plan::Plan> plan(const std::vector<Value>& inputs) { return program_->plan_for(inputs)->plan; }
  void expect_bits_of_cpu(const NamedValues& inputs, int runs = 2) {
    const NamedValues expected = cpu_->run(inputs);
    for (int i = 0; i < runs; ++i) {
      const std::vector<Value> got = run(ordered(inputs));
      for (std::size_t k = 0; k < got.size(); ++k) {
        const std::string& name = model_.graph().value(model_.graph().outputs()[k]).name;
        EXPECT_TRUE(identical(got[k].tensor(), expected.at(name).tensor())) << name;
      }
    }
  }
  NamedValues inputs(std::uint64_t seed = 3) const { return random_inputs(model_, seed); }
  ProgramEnvironment& environment() { return environment_; }

 private:
  Model model_;
  ProgramEnvironment environment_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Session> cpu_;
};

int host_steps(const plan::Plan& plan) {
  return static_cast<int>(std::ranges::count_if(plan.steps, [](const plan::Step& step) {
    return step.kind != plan::StepKind::copy && step.space == backends::MemorySpace::host;
  }));
}

ir::Graph layers() {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("n"), 16}));
  Tensor weights(DType::f32, {16, 16});
  for (std::int64_t i = 0; i < weights.elements(); ++i)
    weights.mutable_data<float>()[i] = static_cast<float>(i % 7) * 0.25f - 0.5f;
  const ir::ValueId a = builder.add("Tanh", {builder.add("MatMul", {x, builder.constant(weights)})});
  const ir::ValueId b = builder.add("Softmax", {a});
  const ir::ValueId y = builder.add("Add", {b, builder.add("Mul", {a, x})});
  graph.value(y).name = "y";
  graph.add_output(y);
  return graph;
}

Value rows(std::int64_t count) {
  Tensor x(DType::f32, {count, 16});
  for (std::int64_t i = 0; i < x.elements(); ++i) x.mutable_data<float>()[i] = static_cast<float>(i % 11) * 0.1f - 0.4f;
  return x;
}

TEST(DeviceRun, CopiesInputsAndOutputsOnly) {
  const QueuedDevice& device = new_device();
  OnDevice on(layers(), device);
  on.expect_bits_of_cpu({{"x", rows(8)}}, 1);
  EXPECT_EQ(device.counts().kernels, 5);
  EXPECT_EQ(device.counts().to_host, 1);
  EXPECT_EQ(device.counts().to_device, 2);  // the input and, once, the weights
  EXPECT_EQ(host_steps(*on.plan({rows(8)})), 0);
}

TEST(DeviceRun, CopiesConstantsOnceForAllPlans) {
  const QueuedDevice& device = new_device();
  OnDevice on(layers(), device);
  on.run({rows(8)});
  on.run({rows(3)});
  on.run({rows(8)});
  EXPECT_EQ(device.counts().to_device, 3 + 1);
  EXPECT_EQ(on.environment().device_weights->size(), 1);
  EXPECT_EQ(on.environment().device_copies->size(), 0);  // the kernel reads packed weights alone
}

TEST(DeviceRun, RunsOnTheHostWhatTheDeviceLacks) {
  const QueuedDevice& device = new_device({"Softmax"});
  OnDevice on(layers(), device);
  on.expect_bits_of_cpu({{"x", rows(8)}});
  const auto plan = on.plan({rows(8)});
  EXPECT_EQ(host_steps(*plan), 1);
  const std::string text = plan::print_plan(*plan, true);
  EXPECT_NE(text.find("Softmax (host)"), std::string::npos) << text;
  EXPECT_NE(text.find("passed over device queued: device 'queued' has no kernel for Softmax"), std::string::npos)
      << text;
  EXPECT_NE(text.find("copy to host, 512 B, 10.1 us expected"), std::string::npos) << text;
}

// Whatever runs where, the results are the same bits: the host waits for what it reads, and for what the queue has yet
// to read of memory that it writes to.
TEST(DeviceRun, MixesStepsOfHostAndDevice) {
  const std::vector<std::set<std::string, std::less<>>> lacks = {
      {}, {"Add", "Relu", "Transpose"}, {"Mul", "MatMul", "Concat", "Conv"}, {"Softmax", "Sub", "Reshape", "Slice"}};
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const QueuedDevice& device = new_device(lacks[seed % lacks.size()]);
    test::GraphCase graph_case = test::random_graph(seed, 16);
    OnDevice on(std::move(graph_case.graph), device, seed % 3 == 0);
    on.expect_bits_of_cpu(graph_case.inputs);
    EXPECT_GT(device.counts().to_host, 0);
  }
}

TEST(DeviceRun, LeavesSizesThatDependOnDataToTheHost) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{8, 16}));
  const ir::ValueId places = builder.add("NonZero", {builder.add("Relu", {x})});
  graph.value(places).name = "places";
  graph.add_output(places);
  const ir::ValueId y = builder.add("Cast", {places}, {{"to", std::int64_t{1}}});
  graph.value(y).name = "y";
  graph.add_output(y);
  const QueuedDevice& device = new_device();
  OnDevice on(std::move(graph), device);
  on.expect_bits_of_cpu({{"x", rows(8)}});
  const std::string text = plan::print_plan(*on.plan({rows(8)}), true);
  EXPECT_NE(text.find("passed over device queued: sizes of its operands depend on data"), std::string::npos) << text;
  EXPECT_EQ(device.counts().kernels, 2);
}

TEST(DeviceRun, ReadsAndWritesDeviceMemoryOfTheCaller) {
  const QueuedDevice& device = new_device();
  OnDevice on(layers(), device);
  const std::vector<Value> first = on.run({rows(8)});
  const auto on_device = [&](std::int64_t bytes) {
    return std::shared_ptr<void>(device.memory().allocate(bytes), [&](void* at) { device.memory().free(at); });
  };
  const std::shared_ptr<void> in = on_device(512), out = on_device(512);
  std::memcpy(in.get(), rows(8).tensor().raw(), 512);
  const int to_device = device.counts().to_device, to_host = device.counts().to_host;
  const Tensor bound[] = {Tensor(DType::f32, {8, 16}, out.get(), out)};
  const std::vector<Value> second = on.run({Tensor(DType::f32, {8, 16}, in.get(), in)}, bound);
  EXPECT_EQ(second[0].tensor().raw(), out.get());
  EXPECT_EQ(device.counts().to_device, to_device);
  EXPECT_EQ(device.counts().to_host, to_host);
  EXPECT_EQ(device.counts().within, 2);
  EXPECT_TRUE(identical(second[0].tensor(), first[0].tensor()));
}

TEST(DeviceRun, BringsDeviceMemoryToStepsOnTheHost) {
  const QueuedDevice& device = new_device({"Mul", "Add"});
  OnDevice on(layers(), device);
  const std::vector<Value> first = on.run({rows(8)});
  const std::shared_ptr<void> in(device.memory().allocate(512), [&](void* at) { device.memory().free(at); });
  const std::shared_ptr<void> out(device.memory().allocate(512), [&](void* at) { device.memory().free(at); });
  std::memcpy(in.get(), rows(8).tensor().raw(), 512);
  const int to_host = device.counts().to_host;
  const Tensor bound[] = {Tensor(DType::f32, {8, 16}, out.get(), out)};
  const std::vector<Value> second = on.run({Tensor(DType::f32, {8, 16}, in.get(), in)}, bound);
  EXPECT_EQ(device.counts().to_host, to_host + 3);  // the input, and the operands of both steps
  EXPECT_TRUE(identical(second[0].tensor(), first[0].tensor()));
}

TEST(DeviceRun, ReportsWhatFailedInTheQueueAndGoesOn) {
  const QueuedDevice& device = new_device();
  OnDevice on(layers(), device);
  on.run({rows(8)});
  device.kernels_until_failure() = 2;
  EXPECT_EQ(test::error_of([&] { on.run({rows(8)}); }), "the queued device failed at Softmax");
  on.expect_bits_of_cpu({{"x", rows(8)}});
}

TEST(DeviceRun, SaysWhenTheDeviceHasNoMemory) {
  const QueuedDevice& device = new_device({}, 1200);
  OnDevice on(layers(), device);
  const std::string error = test::error_of([&] { on.run({rows(8)}); });
  EXPECT_NE(error.find("for the arena do not fit"), std::string::npos) << error;
}

TEST(DeviceRun, TimesStepsByTheDevicesClock) {
  const QueuedDevice& device = new_device({"Softmax"});
  OnDevice on(layers(), device);
  std::vector<StepTiming> timings;
  on.run({rows(8)}, {}, &timings);
  std::vector<std::string> ops;
  for (const StepTiming& timing : timings) {
    ops.push_back(timing.op + (timing.op == "copy" ? " " + timing.kernel : ""));
    if (timing.op == "Softmax") continue;
    EXPECT_GE(timing.duration_ns, 1000) << timing.op;  // a tick for each event
    EXPECT_EQ(timing.duration_ns % 1000, 0) << timing.op;
  }
  EXPECT_EQ(ops, (std::vector<std::string>{"copy to device", "MatMul", "Tanh", "copy to host", "Softmax", "Mul",
                                           "copy to device", "Add", "copy to host"}));
  EXPECT_EQ(timings[0].bytes, 512);
}

// Both sessions begin with the same state, and each run changes it.
TEST(DeviceRun, KeepsVariables) {
  const QueuedDevice& device = new_device({"Exp"});
  OnDevice on(
      test::parsed("graph { variable %v = f32[4] {1, 2, 3, 4} update %next variable %w = f32[4] {0, 1, 0, 2} update %v "
                   "input %x : f32[4] %a = Mul (%v, %x) %b = Exp (%w) %next = Sub (%a, %b) %y = Neg (%next) "
                   "output %y, %b }"),
      device);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    on.expect_bits_of_cpu(on.inputs(seed), 1);
  }
  // v lives on the device and w on the host: the input and %b go up in each run, and v with the first one.
  EXPECT_EQ(device.counts().to_device, 4 * 2 + 1);
}

TEST(DeviceRun, RunsBodiesOfLoops) {
  const QueuedDevice& device = new_device();
  OnDevice on(
      test::parsed("graph { input %x : f32[4] constant %n = i64[] {3} constant %go = bool[] {true} "
                   "%y = Loop (%n, %go, %x) {body = graph { input %i : i64[] input %g : bool[] input %s : f32[4] "
                   "%h = Identity (%g) %t = Exp (%s) %r = Neg (%t) output %h, %r } } "
                   "%z = Relu (%y) output %z, %y }"),
      device);
  on.expect_bits_of_cpu(on.inputs());
  const std::string text = plan::print_plan(*on.plan(on.ordered(on.inputs())), true);
  EXPECT_NE(text.find("passed over device queued: control flow runs on the host"), std::string::npos) << text;
  EXPECT_EQ(device.counts().kernels, 2 * (3 * 3 + 1));
}

TEST(DeviceRun, TimesViewsOnTheDeviceByItsClock) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{8, 16}));
  const ir::ValueId shape = builder.constant(Tensor::from<std::int64_t>({2}, {16, 8}));
  const ir::ValueId y = builder.add("Relu", {builder.add("Reshape", {builder.add("Neg", {x}), shape})});
  graph.value(y).name = "y";
  graph.add_output(y);
  const QueuedDevice& device = new_device();
  OnDevice on(std::move(graph), device);
  std::vector<StepTiming> timings;
  on.run({rows(8)}, {}, &timings);
  ASSERT_EQ(timings.size(), 5u);  // with two copies
  EXPECT_EQ(timings[2].op, "Reshape");

  for (std::size_t i = 1; i < timings.size(); ++i) EXPECT_EQ(timings[i].start_ns, timings[i - 1].start_ns + 2000) << i;
}

TEST(DeviceRun, RecordsThePlanAtItsSecondRunAndReplaysIt) {
  const QueuedDevice& device = new_device();
  OnDevice on(layers(), device);
  Tensor other = rows(8).tensor().clone();
  other.mutable_data<float>()[5] = 3;
  const std::vector<Value> expected = on.run({rows(8)}), expected_of_other = on.run({other});
  on.trim();  // run states have not run yet
  for (int i = 0; i < 4; ++i) {
    const bool odd = i % 2 == 1;
    const std::vector<Value> got = on.run({odd ? Value(other) : rows(8)}, {}, nullptr, true);
    EXPECT_TRUE(identical(got[0].tensor(), (odd ? expected_of_other : expected)[0].tensor())) << i;
  }
  EXPECT_EQ(device.counts().recordings, 1);
  EXPECT_EQ(device.counts().replays, 3);
}

TEST(DeviceRun, ReplaysWithOtherSeeds) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{8, 16}));
  const ir::ValueId y = builder.add("Add", {x, builder.add("RandomNormalLike", {x})});
  graph.value(y).name = "y";
  graph.add_output(y);
  const QueuedDevice& device = new_device();
  OnDevice on(std::move(graph), device);
  const std::vector<Value> one = on.run({rows(8)}, {}, nullptr, false, 1),
                           two = on.run({rows(8)}, {}, nullptr, false, 2);
  ASSERT_FALSE(identical(one[0].tensor(), two[0].tensor()));
  for (const std::uint64_t seed : {1, 1, 2, 2}) {
    const std::vector<Value> got = on.run({rows(8)}, {}, nullptr, true, seed);
    EXPECT_TRUE(identical(got[0].tensor(), (seed == 1 ? one : two)[0].tensor())) << seed;
  }
  EXPECT_EQ(device.counts().recordings, 1);
  EXPECT_EQ(device.counts().replays, 4);
}

TEST(DeviceRun, RecordsTheSegmentsBetweenStepsOnTheHost) {
  const QueuedDevice& device = new_device({"Softmax"});
  OnDevice on(layers(), device);
  const std::vector<Value> expected = on.run({rows(8)}, {}, nullptr, true);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(identical(on.run({rows(8)}, {}, nullptr, true)[0].tensor(), expected[0].tensor())) << i;
  EXPECT_EQ(device.counts().recordings, 2);
  EXPECT_EQ(device.counts().replays, 3 * 2);
}

}  // namespace
}  // namespace tessera::runtime::device_run_test
