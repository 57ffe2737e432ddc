#include "runtime/memory/run_arenas.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "models/models.h"
#include "ops/core/builder.h"
#include "runtime/session/random_inputs.h"
#include "runtime/session/session_access.h"
#include "support/expect_error.h"
#include "support/file_size_limit.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "tessera/session.h"
#include "tessera/train.h"

namespace tessera::runtime::run_arenas_test {
namespace {

Model net(std::string_view name, std::map<std::string, std::int64_t> dims) {
  return Model(std::make_shared<ir::Graph>(models::build_model(name, {.dims = std::move(dims)})));
}

// Wants the run's memory at every `every`-th step, and all of it before a subgraph has its arena. What it was given it
// gives back when it is asked a second time.
class Others final : public StepGate, public RunMemory {
 public:
  explicit Others(std::string folder, int every = 1) : folder_(std::move(folder)), every_(every) {}

  bool may_pass(const StepInfo&) override {
    ++steps_;
    return true;
  }
  void wait(const StepInfo&) override { ADD_FAILURE() << "every step may begin"; }
  RunMemory* memory() override { return this; }

  bool try_take(std::int64_t bytes, bool holds_more) override {
    if (holds_more || (spills_ > returns_ && !was_refused_)) {
      was_refused_ = !holds_more;
      return false;
    }
    was_refused_ = false;
    returns_ = spills_;
    held_ += bytes;
    most_ = std::max(most_, held_);
    return true;
  }
  void wait() override { ++waits_; }
  void give_back(std::int64_t bytes) noexcept override { held_ -= bytes; }
  std::int64_t wanted_bytes() const noexcept override { return held_ > 0 && steps_ % every_ == 0 ? 1 : 0; }
  const std::string& spill_folder() const noexcept override { return folder_; }
  void spilled(std::int64_t written_bytes, std::int64_t) noexcept override {
    EXPECT_EQ(held_, 0);
    ++spills_;
    written_ += written_bytes;
  }

  int spills() const { return spills_; }
  int waits() const { return waits_; }
  std::int64_t held() const { return held_; }
  std::int64_t most() const { return most_; }
  std::int64_t written() const { return written_; }

 private:
  const std::string folder_;
  const int every_;
  int steps_ = 0, spills_ = 0, returns_ = 0, waits_ = 0;
  bool was_refused_ = false;
  std::int64_t held_ = 0, most_ = 0, written_ = 0;
};

void expect_same_bits(const NamedValues& expected, const NamedValues& found) {
  for (const auto& [name, value] : expected) {
    const Tensor &a = value.tensor(), &b = found.at(name).tensor();
    ASSERT_EQ(a.bytes(), b.bytes());
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.bytes())), 0) << name;
  }
}

TEST(RunArenas, ARunThatSpillsBeforeEveryStepGivesTheSameBits) {
  const test::TemporaryFolder folder;
  struct Case {
    std::string_view net;
    std::map<std::string, std::int64_t> dims;
  };
  for (const Case& each : {Case{"lenet5", {{"batch", 8}}}, Case{"mobilenet_v3_small", {{"batch", 1}}},
                           Case{"bert_mini", {{"batch", 1}, {"seq", 32}}}, Case{"lstm", {{"batch", 1}, {"time", 6}}}}) {
    SCOPED_TRACE(each.net);
    const Model model = net(each.net, each.dims);
    Session session(model);
    const NamedValues inputs = random_inputs(model, 5);
    const NamedValues expected = session.run(inputs);
    Others others(folder.path().string());
    expect_same_bits(expected, session.run(inputs, {.gate = &others}));
    EXPECT_GT(others.spills(), 2);
    EXPECT_EQ(others.waits(), others.spills());
    EXPECT_EQ(others.held(), 0);
    EXPECT_EQ(others.most(), session.plan_memory(inputs).arena_bytes);
    // What nobody reads is not written.
    EXPECT_LT(others.written(), others.spills() * others.most());
    EXPECT_GT(others.written(), 0);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
}

TEST(RunArenas, ATrainingThatSpillsEndsWithTheSameBits) {
  const test::TemporaryFolder folder;
  int spills = 0;
  const auto train = [&](bool spills_its_memory) {
    TrainingConfig config;
    config.model.builder = "mlp";
    config.data.train_arrays = {{"x", test::random_tensor(DType::f32, {64, 784}, 1)}, {"y", Tensor(DType::i64, {64})}};
    for (int i = 0; std::int64_t& label : config.data.train_arrays.at("y").mutable_values<std::int64_t>())
      label = i++ % 10;
    config.steps = 5;
    Trainer trainer(config);
    TrainingHooks hooks;
    if (spills_its_memory) {
      hooks.run = [&](Session& session, const NamedValues& inputs, const std::vector<OutputRequest>& outputs,
                      RunOptions how) {
        Others others(folder.path().string(), 2);
        how.gate = &others;
        std::vector<Value> results = session.run(inputs, outputs, how);
        spills += others.spills();
        EXPECT_EQ(others.held(), 0);
        return results;
      };
    }
    return trainer.run(hooks).loss;
  };
  const auto alone = train(false);
  EXPECT_EQ(train(true), alone);
  EXPECT_GE(spills, 5);
}

// A Loop whose body has several steps: both arenas go and come back, also while the inner one is being taken.
TEST(RunArenas, RunsOfSubgraphsSpillTheArenasAroundThemToo) {
  const test::TemporaryFolder folder;
  auto body = std::make_shared<ir::Graph>();
  const auto f32 = ir::ValueType::tensor(DType::f32, ir::Dims{5000});
  {
    ops::GraphBuilder builder(*body);
    body->add_input("i", ir::ValueType::tensor(DType::i64, ir::Dims{}));
    const ir::ValueId condition = body->add_input("condition_in", ir::ValueType::tensor(DType::boolean, ir::Dims{}));
    const ir::ValueId sum = body->add_input("sum_in", f32), step = body->add_input("step", f32);
    const ir::ValueId next = builder.add("Sigmoid", {builder.add("Tanh", {builder.add("Add", {sum, step})})});
    body->set_outputs({condition, next});
  }
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId trips = graph->add_input("trips", ir::ValueType::tensor(DType::i64, ir::Dims{}));
  const ir::ValueId x = graph->add_input("x", f32);
  const ir::ValueId start = builder.add("Tanh", {x}), step = builder.add("Sigmoid", {x});
  ir::Node node{
      "Loop", "sum", {trips, {}, start, step}, {graph->add_value("sum", f32)}, {{"body", ir::SubgraphPointer(body)}},
      1};
  const ir::ValueId sum = node.outputs[0];
  graph->add_node(node);
  const ir::ValueId y = builder.add("Add", {builder.add("Sigmoid", {sum}), step});
  graph->value(y).name = "y";
  graph->add_output(y);
  Session session(Model(graph), {.without_passes = {"fuse_element_wise"}});
  const NamedValues inputs{{"trips", Tensor::scalar(std::int64_t{4})},
                           {"x", test::random_tensor(DType::f32, {5000}, 3)}};
  const NamedValues expected = session.run(inputs);
  Others others(folder.path().string());
  expect_same_bits(expected, session.run(inputs, {.gate = &others}));
  EXPECT_GT(others.spills(), 8);
  EXPECT_GT(others.most(), session.plan_memory(inputs).arena_bytes);
  EXPECT_EQ(others.held(), 0);
}

TEST(RunArenas, AFullDiskEndsTheRunAloneAndLeavesNothing) {
  const test::TemporaryFolder folder;
  const Model model = net("lenet5", {{"batch", 8}});
  Session session(model);
  const NamedValues inputs = random_inputs(model, 5);
  const NamedValues expected = session.run(inputs);
  {
    const test::FileSizeLimit full(1000);
    Others others(folder.path().string());
    test::expect_error_containing(ErrorKind::io, "of a run's memory in '" + folder.path().string() + "'",
                                  [&] { session.run(inputs, {.gate = &others}); });
    EXPECT_EQ(others.held(), 0);
  }
  Others nowhere((folder / "missing").string());
  test::expect_error_containing(ErrorKind::io, "No such file", [&] { session.run(inputs, {.gate = &nowhere}); });
  EXPECT_EQ(nowhere.held(), 0);
  Others others(folder.path().string());
  expect_same_bits(expected, session.run(inputs, {.gate = &others}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace tessera::runtime::run_arenas_test
