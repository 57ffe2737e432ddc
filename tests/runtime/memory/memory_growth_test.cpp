// Resident memory stays where it is over runs with changing shapes, and over loads and unloads. bench/memory_growth.cpp
// does the same for long, with real models.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "ops/core/builder.h"
#include "support/resident_memory.h"
#include "support/sanitized.h"
#include "support/temporary_folder.h"
#include "tessera/session.h"

namespace tessera::memory_growth_test {
namespace {

constexpr std::int64_t kWidth = 64;

// A product with constant weights, one with weights that only the shapes tell (folded and packed for each plan), a
// loop, and a result whose size depends on the data.
Model changing_model() {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId x = graph->add_input(
      "x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), ir::Dim::symbol("seq"), kWidth}));
  Tensor weights(DType::f32, {kWidth, kWidth});
  std::ranges::fill(weights.mutable_values<float>(), 0.01f);
  const ir::ValueId hidden = builder.add("Softmax", {builder.add("MatMul", {x, builder.constant(weights)})});

  const ir::ValueId seq = builder.add("Gather", {builder.add("Shape", {x}), builder.integers({1})});
  const ir::ValueId square = builder.add("Concat", {builder.integers({kWidth}), seq}, {{"axis", std::int64_t{0}}});
  const ir::ValueId folded = builder.add("ConstantOfShape", {square}, {{"value", Tensor::from<float>({1}, {0.5f})}});
  const ir::ValueId scores = builder.add("MatMul", {hidden, folded});

  auto body = std::make_shared<ir::Graph>();
  ops::GraphBuilder inside(*body);
  body->add_input("i", ir::ValueType::tensor(DType::i64, Shape{}));
  const ir::ValueId go = body->add_input("go", ir::ValueType::tensor(DType::boolean, Shape{}));
  const ir::ValueId state = body->add_input(
      "state", ir::ValueType::tensor(
                   DType::f32, ir::Dims{ir::Dim::symbol("batch"), ir::Dim::symbol("seq"), ir::Dim::symbol("seq2")}));
  const ir::ValueId next = inside.add("Relu", {inside.add("Add", {state, state})});
  body->set_outputs({go, next, inside.add("ReduceMean", {next})});
  const std::vector<ir::ValueId> looped =
      builder.add_multi("Loop", {builder.constant(Tensor::scalar(std::int64_t{3})), ir::ValueId{}, scores}, 2,
                        {{"body", ir::SubgraphPointer(body)}});
  const std::vector<ir::ValueId> results{looped[0], looped[1], builder.add("NonZero", {looped[0]})};
  for (const ir::ValueId result : results) graph->add_output(result);
  graph->value(results[0]).name = "y";
  graph->value(results[1]).name = "means";
  graph->value(results[2]).name = "where";
  return Model(graph);
}

Tensor input_of(int run) {
  Tensor x(DType::f32, {1 + run % 3, 1 + run * 7 % 61, kWidth});
  std::ranges::fill(x.mutable_values<float>(), 1.0f);
  return x;
}

// Growth of resident memory between a third and the whole of `count` repetitions.
std::int64_t growth(int count, const std::function<void(int)>& body) {
  std::int64_t warm = 0;
  for (int i = 0; i < count; ++i) {
    if (i == count / 3) warm = test::resident_bytes();
    body(i);
  }
  return test::resident_bytes() - warm;
}

TEST(MemoryGrowth, RunsWithChangingShapesStayFlat) {
  Session session(changing_model());
  // A packing left behind by each new plan would be over 6 MB.
  // Shadow memory and quarantine grow by themselves.
  const std::int64_t grown = growth(test::kSanitized ? 60 : 600, [&](int run) { session.run({{"x", input_of(run)}}); });
  EXPECT_TRUE(test::kSanitized || grown < std::int64_t{3} << 20) << grown << " bytes";
  const MemoryUse use = session.memory();
  EXPECT_EQ(use.arena_bytes, 0);
  EXPECT_EQ(use.results_bytes, 0);
  EXPECT_GT(use.plans_bytes, 0);
}

TEST(MemoryGrowth, PlansStayWithinTheirBytes) {
  SessionOptions options;
  options.max_cached_plans = 1000;
  options.max_plan_bytes = 200'000;
  Session session(changing_model(), options);
  std::int64_t largest = 0;
  for (int run = 0; run < 60; ++run) {
    session.run({{"x", input_of(run)}});
    largest = std::max(largest, session.memory().plans_bytes);
  }
  EXPECT_LT(largest, 300'000);  // one plan may stand above
  EXPECT_GT(largest, 20'000);
  // Packings of folded constants went with their plans: at most a few are left beside that of the weights.
  EXPECT_LT(session.memory().packed_weights_bytes, 500'000);
}

TEST(MemoryGrowth, LoadsAndUnloadsStayFlat) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "changing.onnx";
  changing_model().save(path);
  const std::int64_t grown =
      growth(test::kSanitized ? 15 : 150, [&](int run) { Session(Model::load(path)).run({{"x", input_of(run)}}); });
  EXPECT_TRUE(test::kSanitized || grown < std::int64_t{3} << 20) << grown << " bytes";
}

}  // namespace
}  // namespace tessera::memory_growth_test
