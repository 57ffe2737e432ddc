// Proof that the spine carries what comes: training as a graph with variables, priorities at the gate between steps,
// and plans for machines that are not here.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "ir/graph.h"
#include "ops/core/builder.h"
#include "runtime/run/gate.h"
#include "tessera/session.h"

namespace tessera::spine_test {
namespace {

// One step of gradient descent for y = a·x + b under the mean squared error, written by hand as nodes:
// e = a·x + b − y;  a' = a − lr · mean(2·e·x);  b' = b − lr · mean(2·e).
Model line_fitting_step() {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{16}));
  const ir::ValueId y = graph->add_input("y", ir::ValueType::tensor(DType::f32, ir::Dims{16}));
  const ir::ValueId a = graph->add_variable("a", Tensor::from<float>({1}, {0.0f}));
  const ir::ValueId b = graph->add_variable("b", Tensor::from<float>({1}, {0.0f}));
  const ir::ValueId error = builder.add("Sub", {builder.add("Add", {builder.add("Mul", {a, x}), b}), y});
  const ir::ValueId twice = builder.scalar(2.0), rate = builder.scalar(0.3);
  auto descend = [&](ir::ValueId parameter, ir::ValueId gradient_terms) {
    const ir::ValueId gradient =
        builder.add("ReduceMean", {builder.add("Mul", {gradient_terms, twice}), builder.integers({0})});
    return builder.add("Sub", {parameter, builder.add("Mul", {gradient, rate})});
  };
  graph->set_variable_update("a", descend(a, builder.add("Mul", {error, x})));
  graph->set_variable_update("b", descend(b, error));
  const ir::ValueId loss = builder.add("ReduceMean", {builder.add("Mul", {error, error})});
  graph->value(loss).name = "loss";
  graph->add_output(loss);
  return Model(graph);
}

TEST(Spine, AGraphWithVariablesFitsALine) {
  Session session(line_fitting_step());
  Tensor x(DType::f32, {16}), y(DType::f32, {16});
  for (int i = 0; i < 16; ++i) {
    x.mutable_data<float>()[i] = static_cast<float>(i) / 8.0f - 1.0f;
    y.mutable_data<float>()[i] = 3.0f * x.data<float>()[i] - 0.5f;
  }
  float loss = 0;
  for (int step = 0; step < 200; ++step) loss = session.run({{"x", x}, {"y", y}}).at("loss").tensor().data<float>()[0];
  EXPECT_LT(loss, 1e-6f);
  EXPECT_NEAR(session.variable("a").data<float>()[0], 3.0f, 1e-3f);
  EXPECT_NEAR(session.variable("b").data<float>()[0], -0.5f, 1e-3f);
  // The state can be put back.
  session.set_variable("a", Tensor::from<float>({1}, {0.0f}));
  EXPECT_EQ(session.variable("a").data<float>()[0], 0.0f);
}

// Holds a run before its second step until it is opened.
class ClosedGate final : public runtime::StepGate {
 public:
  bool may_pass(const runtime::StepInfo& step) override {
    std::lock_guard lock(mutex_);
    return open_ || step.index == 0;
  }
  void wait(const runtime::StepInfo&) override {
    std::unique_lock lock(mutex_);
    held_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void wait_until_held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_; });
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, held_ = false;
};

Model three_steps() {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{8}));
  const ir::ValueId y = builder.add("Sigmoid", {builder.add("Relu", {builder.add("Add", {x, x})})});
  graph->value(y).name = "y";
  graph->add_output(y);
  return Model(graph);
}

TEST(Spine, ALowPriorityRunWaitsAtTheGateWhileOthersPass) {
  const Model model = three_steps();
  const Tensor x = Tensor::from<float>({8}, {1, 2, 3, 4, 5, 6, 7, 8});
  const SessionOptions options{.without_passes = {"fuse_element_wise"}};  // three steps stay three
  Session background(model, options), urgent(model, options);
  ClosedGate gate;
  std::atomic<bool> background_done{false};
  std::thread low_priority([&] {
    RunOptions options;
    options.gate = &gate;
    background.run({{"x", x}}, options);
    background_done = true;
  });
  gate.wait_until_held();
  // The held run has given its core up, so even with one core the urgent runs go through.
  for (int i = 0; i < 3; ++i) urgent.run({{"x", x}});
  EXPECT_FALSE(background_done.load());
  gate.open();
  low_priority.join();
  EXPECT_TRUE(background_done.load());
}

TEST(Spine, PlansA40GibModelForADeviceThatIsNotHere) {
  // 40 layers of 16384 x 16384 float32 weights: 1 GiB each. Their bytes do not exist.
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{64, 16384}));
  for (int layer = 0; layer < 40; ++layer) {
    const ir::ValueId weights = graph->add_constant(Tensor(DType::f32, {16384, 16384}, nullptr, nullptr));
    x = builder.add("Relu", {builder.add("MatMul", {x, weights})});
  }
  graph->value(x).name = "y";
  graph->add_output(x);
  Session session(Model(graph), {.device = "null"});
  const NamedValues inputs{{"x", Tensor(DType::f32, {64, 16384}, nullptr, nullptr)}};
  EXPECT_EQ(session.memory().weights_bytes, std::int64_t{40} << 30);
  const Session::PlanMemory memory = session.plan_memory(inputs);
  EXPECT_EQ(memory.largest_live_bytes, 2 * 64 * 16384 * 4);
  EXPECT_EQ(memory.arena_bytes, memory.largest_live_bytes);
  EXPECT_EQ(session.run(inputs).at("y").tensor().shape(), (Shape{64, 16384}));
}

}  // namespace
}  // namespace tessera::spine_test
