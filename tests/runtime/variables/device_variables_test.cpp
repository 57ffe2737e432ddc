// Variables in the memory of a device: what is copied over the link, what is recorded, and what holds when a run fails.
#include <gtest/gtest.h>

#include "backends/backend_table.h"
#include "backends/device_activity.h"
#include "ir/text.h"
#include "ops/core/builder.h"
#include "passes/training/differentiate.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "tessera/session.h"
#include "tessera/variable_store.h"

namespace tessera::runtime::device_variables_test {
namespace {

using ir::ValueId;
using test::expect_error_containing;
using test::random_tensor;

constexpr std::int64_t kWidth = 32, kBatch = 4;
constexpr std::int64_t kInputBytes = 2 * kBatch * kWidth * 4, kSeedBytes = 8;

// Two layers with dropout between them, the mean of the squared error, and momentum for both weights.
Model training_step(bool drops) {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const auto type = ir::ValueType::tensor(DType::f32, ir::Dims{kBatch, kWidth});
  const ValueId x = graph->add_input("x", type), y = graph->add_input("y", type);
  std::vector<ValueId> weights;
  for (const char* name : {"a", "b"})
    weights.push_back(
        graph->add_variable(name, random_tensor(DType::f32, {kWidth, kWidth}, weights.size(), -0.1, 0.1)));
  ValueId hidden = builder.add("Relu", {builder.add("MatMul", {x, weights[0]})});
  if (drops) {
    const ValueId noise = builder.add("RandomUniformLike", {x}, {{"stream", std::int64_t{1}}});
    hidden = builder.add("Mul", {hidden, noise});
  }
  const ValueId error = builder.add("Sub", {builder.add("MatMul", {hidden, weights[1]}), y});
  const ValueId loss = builder.add("ReduceMean", {builder.add("Mul", {error, error})}, {{"keepdims", std::int64_t{0}}});
  graph->value(loss).name = "loss";
  graph->add_output(loss);
  const std::vector<ValueId> gradients = passes::build_gradients(*graph, loss, weights);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string name = i == 0 ? "a" : "b";
    Tensor zeros(DType::f32, {kWidth, kWidth});
    std::ranges::fill(zeros.mutable_values<float>(), 0.0f);
    const ValueId moment = graph->add_variable(name + ".m", zeros);
    const ValueId next = builder.add("Add", {builder.add("Mul", {moment, builder.scalar(0.9)}), gradients[i]});
    graph->set_variable_update(name + ".m", next);
    graph->set_variable_update(name,
                               builder.add("Add", {weights[i], builder.add("Mul", {next, builder.scalar(-0.1)})}));
  }
  graph->sort_topologically();
  return Model(graph);
}

NamedValues batch(std::uint64_t number) {
  return {{"x", random_tensor(DType::f32, {kBatch, kWidth}, 10 + number)},
          {"y", random_tensor(DType::f32, {kBatch, kWidth}, 90 + number)}};
}

// Each test has a device of its own, because sessions of one device share its counts.
std::string new_device(const std::string& compute, const std::string& more = "") {
  static int number = 7000;
  return "simulated:t4,compute=" + compute + ",number=" + std::to_string(number++) + more;
}

backends::DeviceActivity activity(const std::string& device) {
  return backends::find_device(device).activity();
}

void expect_same_variables(Session& got, Session& expected) {
  for (const std::string& name : expected.variables()->names())
    EXPECT_TRUE(identical(got.variable(name), expected.variable(name))) << name;
}

struct Case {
  const char* compute;
  bool drops, captures;
};

class DeviceVariables : public testing::TestWithParam<Case> {};

// Ten steps copy inputs up and losses down, and nothing else.
TEST_P(DeviceVariables, NoWeightCrossesTheLink) {
  const auto& [compute, drops, captures] = GetParam();
  const std::string device = new_device(compute);
  const Model model = training_step(drops);
  Session on_device(model, {.device = device}), on_host(model, {.device = compute});
  const std::int64_t up = kInputBytes + (drops ? kSeedBytes : 0);
  backends::DeviceActivity recorded;
  for (std::uint64_t step = 0; step < 12; ++step) {
    const RunOptions options{.seed = 100 + step, .capture = captures};
    const backends::DeviceActivity before = activity(device);
    const NamedValues outputs = on_device.run(batch(step), options);
    const backends::DeviceActivity done = activity(device) - before;
    EXPECT_TRUE(identical(outputs.at("loss").tensor(), on_host.run(batch(step), options).at("loss").tensor())) << step;
    if (step == 0) continue;  // the initial values and constants go up
    EXPECT_EQ(done.bytes_to_device, up) << step;
    EXPECT_EQ(done.bytes_to_host, 4) << step;
    EXPECT_EQ(done.replays, captures ? 1 : 0) << step;
    if (step > 1) {
      recorded.instantiations += done.instantiations;
      recorded.updates += done.updates;
    } else {
      EXPECT_EQ(done.instantiations, captures ? 1 : 0);
    }
  }
  // Updates that kernels of the CPU write over their variables keep the addresses; others move, and the recording with
  // them.
  EXPECT_EQ(recorded.instantiations, 0);
  if (std::string(compute) == "cpu") {
    EXPECT_EQ(recorded.updates, 0);
  }
  expect_same_variables(on_device, on_host);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceVariables,
                         testing::Values(Case{"cpu", false, false}, Case{"cpu", false, true}, Case{"cpu", true, true},
                                         Case{"reference", true, false}, Case{"reference", true, true}),
                         [](const auto& each) {
                           return std::string(each.param.compute) + (each.param.drops ? "_dropout" : "") +
                                  (each.param.captures ? "_recorded" : "");
                         });

// A value that the host sets is used by the next run, and what the host reads is the value after the last one; sessions
// of the host that share the store see the same.
TEST(DeviceVariables, FollowTheHost) {
  const Model model = training_step(false);
  Session on_device(model, {.device = new_device("cpu")}), on_host(model);
  Session sharing(model, {.variables = on_device.variables()});
  for (std::uint64_t step = 0; step < 6; ++step) {
    const RunOptions options{.capture = true};
    if (step == 3) {
      on_device.set_variable("a", random_tensor(DType::f32, {kWidth, kWidth}, 77, -0.1, 0.1));
      on_host.set_variable("a", random_tensor(DType::f32, {kWidth, kWidth}, 77, -0.1, 0.1));
    }
    Session& runs = step == 4 ? sharing : on_device;
    EXPECT_TRUE(
        identical(runs.run(batch(step), options).at("loss").tensor(), on_host.run(batch(step)).at("loss").tensor()))
        << step;
    if (step != 1) expect_same_variables(sharing, on_host);
  }
}

TEST(DeviceVariables, SnapshotsKeepTheirValues) {
  const Model model = training_step(false);
  Session on_device(model, {.device = new_device("cpu")}), on_host(model);
  on_device.run(batch(0));
  on_host.run(batch(0));
  const VariableSnapshot snapshot = on_device.variables()->snapshot();
  for (std::uint64_t step = 1; step < 3; ++step) on_device.run(batch(step));
  expect_same_variables(on_host, on_host);
  for (const std::string& name : snapshot.names())
    EXPECT_TRUE(identical(snapshot.variable(name), on_host.variable(name))) << name;
  on_device.variables()->restore(snapshot);
  EXPECT_TRUE(identical(on_device.run(batch(5)).at("loss").tensor(), on_host.run(batch(5)).at("loss").tensor()));
  expect_same_variables(on_device, on_host);
}

Model parsed(const char* text) {
  return Model(std::make_shared<const ir::Graph>(ir::parse(text)));
}

NamedValues row(std::int64_t index) {
  return {{"i", Tensor::from<std::int64_t>({1}, {index})}};
}

// The device finds the bad index after the host has enqueued the update.
TEST(DeviceVariables, ARunThatFailsBeforeItWritesChangesNothing) {
  const Model model = parsed(
      "graph { variable %v = f32[4] {1, 2, 3, 4} update %next constant %c = f32[3] {5, 6, 7} input %i : i64[1] "
      "%g = Gather (%c, %i) %next = Add (%v, %g) %y = Neg (%g) output %y }");
  for (const bool captures : {false, true}) {
    const RunOptions how{.capture = captures};
    Session session(model, {.device = new_device("cpu")});
    for (int run = 0; run < 3; ++run) session.run(row(1), how);
    EXPECT_EQ(session.variable("v").data<float>()[0], 19);
    expect_error_containing(ErrorKind::failed, "Gather", [&] { session.run(row(9), how); });
    EXPECT_EQ(session.variable("v").data<float>()[0], 19);
    for (int run = 0; run < 2; ++run) session.run(row(0), how);
    EXPECT_EQ(session.variable("v").data<float>()[0], 29);
    Cancellation cancellation;
    cancellation.cancel();
    const RunOptions cancelled{.cancellation = &cancellation, .capture = captures};
    expect_error_containing(ErrorKind::cancelled, "", [&] { session.run(row(0), cancelled); });
    EXPECT_EQ(session.variable("v").data<float>()[0], 29);
  }
}

TEST(DeviceVariables, ARunThatFailsOnWhatItWroteNamesTheVariables) {
  const Model model = parsed(
      "graph { variable %v = f32[4] {1, 2, 3, 4} update %next input %x : f32[4] input %i : i64[1] "
      "%next = Add (%v, %x) %y = Gather (%next, %i) output %y }");
  const Tensor x = Tensor::from<float>({4}, {1, 1, 1, 1});
  const auto inputs = [&](std::int64_t index) {
    NamedValues values = row(index);
    values.emplace("x", x);
    return values;
  };
  for (const bool captures : {false, true}) {
    const RunOptions how{.capture = captures};
    Session session(model, {.device = new_device("cpu")});
    for (int run = 0; run < 2; ++run) EXPECT_EQ(session.run(inputs(1), how).at("y").tensor().data<float>()[0], 3 + run);
    expect_error_containing(ErrorKind::failed, "variables 'v', which are damaged",
                            [&] { session.run(inputs(9), how); });
    expect_error_containing(ErrorKind::failed, "'v'", [&] { session.run(inputs(1)); });
    session.set_variable("v", x);
    EXPECT_EQ(session.run(inputs(0), how).at("y").tensor().data<float>()[0], 2);
  }
}

TEST(DeviceVariables, TakeMemoryOfTheDevice) {
  const Model model = training_step(false);
  Session session(model, {.device = new_device("cpu", ",memory=20KiB")});
  expect_error_containing(ErrorKind::over_budget, "variables", [&] { session.run(batch(0)); });
}

}  // namespace
}  // namespace tessera::runtime::device_variables_test
