// Steps on the host whose kernels go on after the step: what they overlap, and that results, failures and cancellations
// are those of a run that waits for each.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <thread>

#include "backends/asynchronous.h"
#include "backends/cpu/cpu_device.h"
#include "base/numbers/float_state.h"
#include "ir/text.h"
#include "runtime/session/environment.h"
#include "runtime/session/random_inputs.h"
#include "support/error_of.h"
#include "support/queued_device.h"
#include "support/random_graph.h"
#include "support/random_tensor.h"
#include "tessera/session.h"

namespace tessera::runtime::asynchronous_step_test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// What a begun kernel keeps of its context.
struct Begun {
  ir::Node node;
  const ops::OpDef* op;
  std::vector<Value> inputs, outputs;
  std::vector<ir::ValueType> types;
  std::byte* scratch;
};

// A host device whose kernels of some operators are those of the CPU after a delay, on a thread of their own.
class SlowDevice final : public backends::Device {
 public:
  SlowDevice(std::set<std::string, std::less<>> slow, milliseconds delay) : slow_(std::move(slow)), delay_(delay) {}

  std::string_view name() const override { return "slow"; }
  std::span<const backends::KernelEntry* const> kernels_for(std::string_view op) const override {
    return backends::cpu_device().kernels_for(op);
  }
  bool supports_float16() const override { return backends::cpu_device().supports_float16(); }
  bool flushes_denormals() const override { return true; }
  backends::KernelPointer make_kernel(const backends::KernelEntry& entry, const ops::NodeView& view,
                                      backends::WeightStore& weights) const override;

  // What happened so far.
  mutable std::atomic<int> begun{0}, completed{0}, ended_early{0};
  mutable std::atomic<bool> fails{false};

 private:
  friend class SlowWork;
  const std::set<std::string, std::less<>> slow_;
  const milliseconds delay_;
};

class SlowWork final : public backends::PendingWork {
 public:
  SlowWork(const SlowDevice& device, const backends::Kernel& kernel, Begun begun) {
    ++device.begun;
    thread_ = std::thread([this, &device, &kernel, begun = std::move(begun)]() mutable {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, device.delay_, [this] { return ends_; })) {
        ++device.ended_early;
        return;
      }
      lock.unlock();
      std::vector<const Value*> inputs;
      for (const Value& input : begun.inputs) inputs.push_back(&input);
      const backends::ExecutionResources resources;
      backends::KernelContext context(begun.node, *begun.op, inputs, begun.outputs, begun.types, resources);
      context.set_scratch(begun.scratch);
      {
        const base::FlushedDenormals flushed(true);
        if (!device.fails) kernel.run(context);
      }
      lock.lock();
      complete_ = true;
      failed_ = device.fails;
      ++device.completed;
      changed_.notify_all();
    });
  }
  ~SlowWork() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  bool wait_for(std::chrono::nanoseconds patience) override {
    std::unique_lock lock(mutex_);
    const bool complete = changed_.wait_for(lock, patience, [this] { return complete_; });
    if (failed_) throw Error(ErrorKind::failed, "the peer went away");
    return complete;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false, complete_ = false, failed_ = false;
  std::thread thread_;
};

class SlowKernel final : public backends::AsynchronousKernel {
 public:
  SlowKernel(const SlowDevice& device, backends::KernelPointer kernel) : device_(device), kernel_(std::move(kernel)) {}
  std::int64_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  std::unique_ptr<backends::PendingWork> begin(backends::KernelContext& context) const override {
    Begun begun{context.node(), &context.op(), {}, {}, {}, context.scratch()};
    for (std::size_t i = 0; i < context.input_count(); ++i)
      begun.inputs.push_back(context.has_input(i) ? context.input_value(i) : Value());
    for (std::size_t i = 0; i < context.output_count(); ++i) {
      begun.outputs.push_back(context.wants_output(i) ? Value(context.output(i)) : Value());
      begun.types.push_back(context.output_type(i));
    }
    return std::make_unique<SlowWork>(device_, *kernel_, std::move(begun));
  }

 private:
  const SlowDevice& device_;
  const backends::KernelPointer kernel_;
};

backends::KernelPointer SlowDevice::make_kernel(const backends::KernelEntry& entry, const ops::NodeView& view,
                                                backends::WeightStore& weights) const {
  backends::KernelPointer kernel = backends::cpu_device().make_kernel(entry, view, weights);
  if (!slow_.contains(view.op().name)) return kernel;
  return std::make_unique<SlowKernel>(*this, std::move(kernel));
}

// A program on a device that no table lists, without passes.
class Runs {
 public:
  Runs(ir::Graph graph, const backends::Device& device) : model_(std::make_shared<const ir::Graph>(std::move(graph))) {
    SessionOptions options;
    for (const passes::Pass& pass : passes::all_passes()) options.without_passes.emplace_back(pass.name);
    environment_ = make_environment(model_, options);
    use_device(environment_, device);
    program_ = make_program(model_, options, environment_);
    cpu_ = std::make_unique<Session>(model_, options);
  }
  std::vector<Value> run(const NamedValues& inputs, const base::StopSignal* stop = nullptr, bool capture = false) {
    std::vector<Value> values;
    for (const ir::ValueId id : model_.graph().inputs()) values.push_back(inputs.at(model_.graph().value(id).name));
    RunControl control;
    control.resources = {
        .host = {&base::ThreadPool::process(), 0}, .allocator = environment_.results.get(), .stop = stop};
    control.capture = capture;
    control.lease.emplace(base::ThreadPool::process(), Priority::standard, tessera::Clock::steady(), 0);
    return program_->run(values, control);
  }
  void expect_bits_of_cpu(const NamedValues& inputs, bool capture = false) {
    const NamedValues expected = cpu_->run(inputs);
    const std::vector<Value> got = run(inputs, nullptr, capture);
    for (std::size_t k = 0; k < got.size(); ++k) {
      const std::string& name = model_.graph().value(model_.graph().outputs()[k]).name;
      EXPECT_TRUE(identical(got[k].tensor(), expected.at(name).tensor())) << name;
    }
  }
  NamedValues inputs(std::uint64_t seed = 3) const { return random_inputs(model_, seed); }
  const plan::Plan& plan() {
    std::vector<Value> values;
    const NamedValues all = inputs();
    for (const ir::ValueId id : model_.graph().inputs()) values.push_back(all.at(model_.graph().value(id).name));
    kept_ = program_->plan_for(values)->plan;
    return *kept_;
  }

 private:
  Model model_;
  ProgramEnvironment environment_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Session> cpu_;
  std::shared_ptr<const plan::Plan> kept_;
};

// A device with a queue, whose steps on the host run on `host`. Devices live until the process ends.
const test::QueuedDevice& queued_beside(std::set<std::string, std::less<>> lacks, const SlowDevice& host) {
  static std::vector<std::unique_ptr<test::QueuedDevice>> devices;
  devices.push_back(std::make_unique<test::QueuedDevice>(std::move(lacks), INT64_MAX, &host));
  return *devices.back();
}

// %a is slow; the products do not need it.
ir::Graph beside_products(int products) {
  std::string text = "graph { input %x : f32[384, 384] %a = Neg (%x) ";
  std::string last = "x";
  for (int i = 0; i < products; ++i) {
    const std::string next = "p" + std::to_string(i);
    text += "%" + next + " = MatMul (%" + last + ", %x) ";
    last = next;
  }
  return ir::parse(text + "%y = Add (%" + last + ", %a) output %y }");
}

double seconds_of(const auto& body) {
  const Clock::time_point begin = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(AsynchronousStep, OverlapsASleepWithProducts) {
  const SlowDevice waits({}, milliseconds(0));
  Runs products(beside_products(12), waits);
  const NamedValues inputs = products.inputs();
  products.run(inputs);
  double sum = 1, together = 1;
  for (int attempt = 0; attempt < 6 && together >= 0.8 * sum; ++attempt) {  // others may disturb some of them
    const double computing = seconds_of([&] { products.run(inputs); });
    const milliseconds delay(std::max<std::int64_t>(20, std::llround(computing * 1000)));
    const SlowDevice device({"Neg"}, delay);
    Runs both(beside_products(12), device);
    both.plan();
    together = seconds_of([&] { both.run(inputs); });
    sum = computing + std::chrono::duration<double>(delay).count();
    EXPECT_EQ(device.completed, 1);
    if (attempt == 0) both.expect_bits_of_cpu(inputs);
  }
  EXPECT_LT(together, 0.8 * sum);
  RecordProperty("seconds", fmt::format("{:.4f} of {:.4f}", together, sum));
}

TEST(AsynchronousStep, ThePlanNamesWhatIsAwaited) {
  const SlowDevice device({"Neg"}, milliseconds(1));
  Runs runs(beside_products(2), device);
  const plan::Plan& plan = runs.plan();
  ASSERT_EQ(plan.steps.size(), 4u);
  EXPECT_TRUE(plan.steps[0].is_asynchronous);
  EXPECT_TRUE(plan.steps[1].awaited_steps.empty());
  EXPECT_TRUE(plan.steps[2].awaited_steps.empty());
  EXPECT_EQ(plan.steps[3].awaited_steps, std::vector<std::int32_t>{0});
  EXPECT_NE(plan::print_plan(plan, false).find(", asynchronous"), std::string::npos);
}

// Each writes its own part of what they are joined to.
TEST(AsynchronousStep, PartsOfOneValueAreMadeAtOnce) {
  const SlowDevice device({"Neg"}, milliseconds(5));
  Runs runs(ir::parse("graph { input %x : f32[4, 8] input %z : f32[4, 8] %a = Neg (%x) %b = Neg (%z) "
                      "%c = Concat (%a, %b) {axis = 0} %y = Sqrt (%c) output %y }"),
            device);
  const plan::Plan& plan = runs.plan();
  ASSERT_EQ(plan.steps[2].kind, plan::StepKind::alias);
  EXPECT_TRUE(plan.steps[1].awaited_steps.empty());
  EXPECT_EQ(plan.steps[3].awaited_steps, (std::vector<std::int32_t>{0, 1}));
  runs.expect_bits_of_cpu(runs.inputs());
}

// Memory is used again only when nobody works in it any more: on the host, and on the host beside a device.
TEST(AsynchronousStep, RandomGraphsHaveTheBitsOfTheCpu) {
  int begun = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::set<std::string, std::less<>> slow = {"Add", "Mul", "Relu", "Transpose", "MatMul", "Conv", "Softmax"};
    const SlowDevice device(slow, milliseconds(2));
    test::GraphCase graph_case = test::random_graph(seed, 16);
    Runs runs(graph_case.graph, device);
    runs.expect_bits_of_cpu(graph_case.inputs);
    Runs beside(std::move(graph_case.graph), queued_beside({"Add", "Mul", "Softmax"}, device));
    beside.expect_bits_of_cpu(graph_case.inputs);
    begun += device.begun;
  }
  EXPECT_GT(begun, 50);
}

TEST(AsynchronousStep, AFailureIsThatOfTheStep) {
  const SlowDevice device({"Neg"}, milliseconds(5));
  Runs runs(beside_products(1), device);
  device.fails = true;
  const std::string error = test::error_of([&] { runs.run(runs.inputs()); });
  EXPECT_NE(error.find("the peer went away"), std::string::npos) << error;
  EXPECT_NE(error.find("Neg"), std::string::npos) << error;
  device.fails = false;
  runs.expect_bits_of_cpu(runs.inputs());
}

TEST(AsynchronousStep, ACancelledRunEndsTheWork) {
  const SlowDevice device({"Neg"}, milliseconds(60'000));
  Runs runs(beside_products(1), device);
  std::atomic<bool> cancelled{false};
  const base::StopSignal stop(&cancelled, std::chrono::nanoseconds(0));
  std::thread cancels([&] {
    while (device.begun == 0) std::this_thread::sleep_for(milliseconds(1));
    cancelled = true;
  });
  double seconds = 0;
  std::string error;
  seconds = seconds_of([&] { error = test::error_of([&] { runs.run(runs.inputs(), &stop); }); });
  cancels.join();
  EXPECT_NE(error.find("cancelled"), std::string::npos) << error;
  EXPECT_LT(seconds, 30);
  EXPECT_EQ(device.ended_early, 1);
  EXPECT_EQ(device.completed, 0);
}

TEST(AsynchronousStep, ADeadlineEndsTheWork) {
  const SlowDevice device({"Neg"}, milliseconds(60'000));
  Runs runs(beside_products(1), device);
  runs.plan();
  const base::StopSignal stop(nullptr, milliseconds(100));
  std::string error;
  EXPECT_LT(seconds_of([&] { error = test::error_of([&] { runs.run(runs.inputs(), &stop); }); }), 30);
  EXPECT_NE(error.find("Neg"), std::string::npos) << error;
  EXPECT_EQ(device.ended_early, 1);
}

// The error of another step ends what is under way.
TEST(AsynchronousStep, NothingIsLeftRunningAfterAnotherStepFailed) {
  const SlowDevice device({"Neg"}, milliseconds(60'000));
  Runs runs(ir::parse("graph { input %x : f32[4] input %i : i64[1] %a = Neg (%x) %b = Gather (%x, %i) "
                      "%y = Add (%a, %b) output %y }"),
            device);
  NamedValues inputs = runs.inputs();
  inputs["i"] = Tensor::from<std::int64_t>({1}, {9});
  const std::string error = test::error_of([&] { runs.run(inputs); });
  EXPECT_NE(error.find("Gather"), std::string::npos) << error;
  EXPECT_EQ(device.begun, 1);
  EXPECT_EQ(device.ended_early, 1);
}

// While a run waits, another may have its core.
TEST(AsynchronousStep, GivesItsCoreBackWhileItWaits) {
  const SlowDevice device({"Neg"}, milliseconds(300));
  Runs runs(ir::parse("graph { input %x : f32[8] %a = Neg (%x) %y = Relu (%a) output %y }"), device);
  const NamedValues inputs = runs.inputs();
  runs.plan();
  const int runs_at_once = 2 * base::ThreadPool::process().cores() + 1;
  const double seconds = seconds_of([&] {
    std::vector<std::thread> threads;
    for (int i = 0; i < runs_at_once; ++i) threads.emplace_back([&] { runs.run(inputs); });
    for (std::thread& each : threads) each.join();
  });
  EXPECT_LT(seconds, 0.85);  // and not three times 0.3 s
}

// The first update that is written over its variable waits for all asynchronous work, so that its failure damages none.
TEST(AsynchronousStep, AFailureComesBeforeUpdatesAreWritten) {
  const SlowDevice device({"Neg"}, milliseconds(20));
  Runs runs(ir::parse("graph { variable %v = f32[4] {1, 2, 3, 4} update %next input %x : f32[4] "
                      "%y = Neg (%x) %w = Mul (%v, %x) %next = Add (%v, %x) output %y output %w }"),
            device);
  ASSERT_FALSE(runs.plan().written_over.empty());
  const NamedValues inputs = runs.inputs();
  device.fails = true;
  const std::string error = test::error_of([&] { runs.run(inputs); });
  EXPECT_NE(error.find("the peer went away"), std::string::npos) << error;
  EXPECT_EQ(error.find("damaged"), std::string::npos) << error;
  device.fails = false;
  for (int i = 0; i < 3; ++i) runs.expect_bits_of_cpu(inputs);  // from the state before the failure
}

// The gradient arrives while the next layer computes, as that of a collective does.
TEST(AsynchronousStep, TrainsToTheBitsOfTheCpu) {
  const SlowDevice device({"Neg"}, milliseconds(3));
  Runs runs(ir::parse("graph { variable %v = f32[4, 4] {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8} update %next "
                      "input %x : f32[4, 4] %p = MatMul (%x, %v) %g = Neg (%p) %q = MatMul (%p, %x) "
                      "%next = Add (%v, %g) output %q }"),
            device);
  ASSERT_FALSE(runs.plan().written_over.empty());
  for (std::uint64_t step = 0; step < 5; ++step) runs.expect_bits_of_cpu(runs.inputs(step));
  EXPECT_EQ(device.completed, 5);
}

// On a device, the segments before and behind the step are recorded once. The one before goes on meanwhile.
TEST(AsynchronousStep, SegmentsAroundItAreReplayed) {
  const SlowDevice host({"Neg"}, milliseconds(3));
  const test::QueuedDevice& device = queued_beside({"Neg"}, host);
  Runs runs(ir::parse("graph { input %x : f32[8, 8] %a = Neg (%x) %b = Relu (%x) %c = MatMul (%b, %x) "
                      "%d = Add (%c, %a) %y = Sqrt (%d) output %y }"),
            device);
  const plan::Plan& plan = runs.plan();
  ASSERT_EQ(plan.segments.size(), 2u) << print_plan(plan, false);
  EXPECT_FALSE(plan.steps[plan.segments[1].first].awaited_steps.empty());
  for (std::uint64_t run = 0; run < 6; ++run) {
    runs.expect_bits_of_cpu(runs.inputs(run), true);
    EXPECT_EQ(device.counts().recordings, run == 0 ? 0 : 2) << run;
  }
  EXPECT_EQ(device.counts().replays, 10);
  EXPECT_EQ(host.completed, 6);
}

}  // namespace
}  // namespace tessera::runtime::asynchronous_step_test
