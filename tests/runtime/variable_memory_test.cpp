// Steps of training hold one copy of weights and optimiser state: memory in use is limited to that.
#include <gtest/gtest.h>

#include "ops/core/builder.h"
#include "passes/training/differentiate.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"
#include "tessera/session.h"
#include "tessera/variable_store.h"

namespace tessera::test::variable_memory_test {
namespace {

using ir::ValueId;

constexpr std::int64_t kWidth = 256, kBatch = 16;
constexpr std::int64_t kWeightBytes = kWidth * kWidth * 4, kActivationBytes = kBatch * kWidth * 4;

Tensor zeros() {
  Tensor tensor(DType::f32, {kWidth, kWidth});
  std::ranges::fill(tensor.mutable_values<float>(), 0.0f);
  return tensor;
}

class Step {
 public:
  explicit Step(ir::Graph& graph) : builder_(graph) {}
  ValueId state(const std::string& name, Tensor initial) {
    return builder_.graph().add_variable(name, std::move(initial));
  }
  ValueId add(ValueId a, ValueId b) { return builder_.add("Add", {a, b}); }
  ValueId times(ValueId a, double b) { return builder_.add("Mul", {a, builder_.scalar(b)}); }
  void update(const std::string& name, ValueId next) { builder_.graph().set_variable_update(name, next); }
  ops::GraphBuilder& builder() { return builder_; }

 private:
  ops::GraphBuilder builder_;
};

void sgd(Step& step, const std::string& name, ValueId weight, ValueId gradient) {
  const ValueId next = step.add(step.times(step.state(name + ".m", zeros()), 0.9), gradient);
  step.update(name + ".m", next);
  step.update(name, step.add(weight, step.times(next, -0.1)));
}

void adam(Step& step, const std::string& name, ValueId weight, ValueId gradient) {
  ops::GraphBuilder& builder = step.builder();
  const ValueId mean = step.add(step.times(step.state(name + ".m", zeros()), 0.9), step.times(gradient, 0.1));
  const ValueId square = step.add(step.times(step.state(name + ".v", zeros()), 0.999),
                                  step.times(builder.add("Mul", {gradient, gradient}), 0.001));
  step.update(name + ".m", mean);
  step.update(name + ".v", square);
  const ValueId root = builder.add("Add", {builder.add("Sqrt", {square}), builder.scalar(1e-8)});
  step.update(name, builder.add("Sub", {weight, builder.add("Div", {step.times(mean, 0.01), root})}));
}

// Two layers, the mean of the squared error, and the update of both.
Model training_step(void (*optimise)(Step&, const std::string&, ValueId, ValueId)) {
  auto graph = std::make_shared<ir::Graph>();
  Step step(*graph);
  ops::GraphBuilder& builder = step.builder();
  const auto type = ir::ValueType::tensor(DType::f32, ir::Dims{kBatch, kWidth});
  const ValueId x = graph->add_input("x", type), y = graph->add_input("y", type);
  const std::vector<ValueId> weights{step.state("a", random_tensor(DType::f32, {kWidth, kWidth}, 1, -0.1, 0.1)),
                                     step.state("b", random_tensor(DType::f32, {kWidth, kWidth}, 2, -0.1, 0.1))};
  const ValueId hidden = builder.add("Relu", {builder.add("MatMul", {x, weights[0]})});
  const ValueId error = builder.add("Sub", {builder.add("MatMul", {hidden, weights[1]}), y});
  const ValueId loss = builder.add("ReduceMean", {builder.add("Mul", {error, error})}, {{"keepdims", std::int64_t{0}}});
  graph->value(loss).name = "loss";
  graph->add_output(loss);
  const std::vector<ValueId> gradients = passes::build_gradients(*graph, loss, weights);
  optimise(step, "a", weights[0], gradients[0]);
  optimise(step, "b", weights[1], gradients[1]);
  graph->sort_topologically();
  return Model(graph);
}

NamedValues batch() {
  return {{"x", random_tensor(DType::f32, {kBatch, kWidth}, 3)}, {"y", random_tensor(DType::f32, {kBatch, kWidth}, 4)}};
}

float train(Session& session, int steps) {
  float loss = 0;
  for (int i = 0; i < steps; ++i) loss = session.run(batch()).at("loss").tensor().data<float>()[0];
  return loss;
}

class VariableMemory : public testing::TestWithParam<std::pair<const char*, int>> {
 protected:
  static Model model() { return training_step(std::string_view(GetParam().first) == "sgd" ? sgd : adam); }
  static std::int64_t variables() { return GetParam().second; }
};

TEST_P(VariableMemory, ATrainingStepNeedsNoSecondCopyOfItsState) {
  const std::int64_t state_bytes = variables() * kWeightBytes;
  // One value more: what set() gives is there beside what it replaces. From then on the memory is the store's.
  const auto store = std::make_shared<VariableStore>(state_bytes + kWeightBytes);
  Session free(model());
  const float loss = train(free, 4);
  const MemoryUse use = free.memory();
  const std::int64_t arena = free.plan_memory(batch()).arena_bytes;
  // Gradients, and the activations of the layers with their gradients; what is packed for a product at a time.
  EXPECT_LE(arena, 2 * kWeightBytes + 8 * kActivationBytes + kWeightBytes);
  constexpr std::int64_t kLoss = 1024;
  const std::int64_t others = use.weights_bytes + use.packed_weights_bytes + use.plans_bytes;
  Session session(model(), {.memory_limit_bytes = others + arena + arena / 8 + kLoss, .variables = store});
  for (const std::string& name : store->names()) store->set(name, store->get(name));
  EXPECT_EQ(store->bytes(), state_bytes);
  EXPECT_EQ(train(session, 4), loss);
  EXPECT_EQ(store->bytes(), state_bytes);
  EXPECT_EQ(session.memory().variables_bytes, 0);  // they count once, in the store
  // While a snapshot holds the values, the next ones need memory: here there is none, and nothing changes.
  {
    const VariableSnapshot snapshot = store->snapshot();
    expect_error_containing(ErrorKind::over_budget, "for variables do not fit", [&] { train(session, 1); });
    EXPECT_TRUE(identical(store->get("a"), snapshot.variable("a")));
    EXPECT_TRUE(identical(store->get("b.m"), snapshot.variable("b.m")));
  }
  EXPECT_EQ(train(session, 1), train(free, 1));
}

TEST_P(VariableMemory, OwnStateCountsOnceAndAsVariables) {
  Session session(model());
  EXPECT_EQ(session.memory().variables_bytes, variables() * kWeightBytes);
  Session beside(model(), {.variables = session.variables()});
  train(session, 2);
  train(beside, 2);
  EXPECT_EQ(session.memory().variables_bytes, variables() * kWeightBytes);
  EXPECT_EQ(beside.memory().variables_bytes, 0);
  EXPECT_EQ(session.memory().results_bytes, 0);
}

TEST_P(VariableMemory, OnlyWhatASnapshotHoldsIsWrittenElsewhere) {
  Session session(model());
  train(session, 2);
  const auto bytes = [&] { return session.memory().variables_bytes; };
  const Tensor held = session.variables()->snapshot().variable("a");
  train(session, 1);
  EXPECT_EQ(bytes(), (variables() + 1) * kWeightBytes);
  train(session, 1);
  EXPECT_EQ(bytes(), (variables() + 1) * kWeightBytes);
}

// The same with and without writing over variables, to the bit.
TEST_P(VariableMemory, TrainsAsWithoutWritingOver) {
  Session session(model()), apart(model());
  for (int i = 0; i < 5; ++i) {
    const VariableSnapshot snapshot = apart.variables()->snapshot();  // held during the run
    EXPECT_EQ(train(session, 1), train(apart, 1));
  }
  for (const std::string& name : session.variables()->names())
    EXPECT_TRUE(identical(session.variable(name), apart.variable(name))) << name;
}

INSTANTIATE_TEST_SUITE_P(Optimisers, VariableMemory, testing::Values(std::pair{"sgd", 4}, std::pair{"adam", 6}),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace tessera::test::variable_memory_test
