// What random operators draw from run to run.
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "ir/graph.h"
#include "ops/core/builder.h"
#include "support/temporary_folder.h"
#include "tessera/optimise.h"
#include "tessera/session.h"

namespace tessera::test::random_draws_test {
namespace {

using Numbers = std::vector<float>;

constexpr std::int64_t kSize = 8;

void name_output(ir::Graph& graph, ir::ValueId value, const std::string& name) {
  graph.value(value).name = name;
  graph.add_output(value);
}

// Outputs that random operators draw: normal "a" and "b", and "c" of Dropout behind a product that folds.
Model drawing_model(ir::Attributes seed = {}) {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("n")}));
  const ir::ValueId folded = builder.add("Mul", {builder.scalar(2), builder.scalar(0.25)});
  name_output(*graph, builder.add("RandomNormalLike", {x}, seed), "a");
  name_output(*graph, builder.add("RandomNormalLike", {builder.add("Identity", {x})}, seed), "b");
  const ir::ValueId dropped = builder.add(
      "Dropout", {builder.add("Add", {x, folded}), builder.scalar(0.5), builder.constant(Tensor::scalar(true))});
  name_output(*graph, builder.add("Relu", {dropped}), "c");
  return Model(graph);
}

Numbers numbers_of(const Value& value) {
  const auto values = value.tensor().values<float>();
  return Numbers(values.begin(), values.end());
}

NamedValues zeros() {
  Tensor x(DType::f32, {kSize});
  std::ranges::fill(x.mutable_values<float>(), 0.0f);
  return {{"x", x}};
}

std::map<std::string, Numbers> draw(Session& session, const RunOptions& how = {}) {
  std::map<std::string, Numbers> drawn;
  for (const auto& [name, value] : session.run(zeros(), how)) drawn[name] = numbers_of(value);
  return drawn;
}

TEST(RandomDraws, DifferFromRunToRunAndFromNodeToNode) {
  const Model model = drawing_model();
  Session session(model), other(model);
  EXPECT_TRUE(session.draws_random_numbers());
  std::set<Numbers> normal;
  for (int run = 0; run < 10; ++run) {
    for (Session* each : {&session, &other}) {
      const auto drawn = draw(*each);
      normal.insert(drawn.at("a"));
      normal.insert(drawn.at("b"));
    }
  }
  EXPECT_EQ(normal.size(), 40u);
}

TEST(RandomDraws, RepeatAsASequenceWithTheSeedOfTheSession) {
  const Model model = drawing_model();
  Session one(model, {.seed = 7}), two(model, {.seed = 7}), other(model, {.seed = 8});
  const auto first = draw(one), second = draw(one);
  EXPECT_NE(first, second);
  EXPECT_EQ(draw(two), first);
  EXPECT_EQ(draw(two), second);
  EXPECT_NE(draw(other), first);
  two.set_seed(7);
  EXPECT_EQ(draw(two), first);
}

TEST(RandomDraws, RepeatWithTheSeedOfTheRun) {
  const Model model = drawing_model();
  Session session(model), other(model, {.seed = 3});
  const auto drawn = draw(session, {.seed = 5});
  EXPECT_EQ(draw(session, {.seed = 5}), drawn);
  EXPECT_EQ(draw(other, {.seed = 5}), drawn);
  EXPECT_NE(draw(session, {.seed = 6}), drawn);
  EXPECT_EQ(numbers_of(session.run(zeros(), {"b"}, {.seed = 5})[0]), drawn.at("b"));
}

TEST(RandomDraws, RepeatAsASequenceWithTheSeedOfTheNode) {
  const Model model = drawing_model({{"seed", 3.0f}});
  Session one(model), two(model);
  const auto first = draw(one), second = draw(one);
  EXPECT_NE(first.at("a"), second.at("a"));
  const auto again = draw(two);
  EXPECT_EQ(again.at("a"), first.at("a"));
  EXPECT_EQ(draw(two).at("a"), second.at("a"));
  EXPECT_EQ(draw(one, {.seed = 9}).at("a"), draw(two, {.seed = 9}).at("a"));
}

TEST(RandomDraws, DoNotDependOnPassesNorOnTheForm) {
  const TemporaryFolder folder;
  const Model model = drawing_model();
  optimise(model, folder / "model.tsr");
  Session session(model), package(Model::load(folder / "model.tsr")),
      plain(model, {.without_passes = {"fold_constants", "remove_no_ops", "merge_duplicates", "fuse_element_wise"}});
  const auto drawn = draw(session, {.seed = 5});
  EXPECT_EQ(draw(package, {.seed = 5}), drawn);
  EXPECT_EQ(draw(plain, {.seed = 5}), drawn);
  // Other programs know no streams.
  optimise(model, folder / "model.onnx");
  const Model written = Model::load(folder / "model.onnx");
  for (const ir::NodeId id : written.graph().order())
    EXPECT_FALSE(written.graph().node(id).attributes.contains("stream"));
  Session onnx(written);
  EXPECT_EQ(draw(onnx, {.seed = 5}).at("a"), drawn.at("a"));
}

TEST(RandomDraws, OfConcurrentRunsAreDistinct) {
  Session session(drawing_model(), {.seed = 1});
  std::set<Numbers> drawn;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int run = 0; run < 25; ++run) {
        const Numbers numbers = draw(session).at("a");
        const std::lock_guard lock(mutex);
        drawn.insert(numbers);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(drawn.size(), 100u);
}

// What a Loop of five trips draws, as its scan output.
Model looping_model(const ir::Attributes& seed) {
  auto body = std::make_shared<ir::Graph>();
  body->add_input("i", ir::ValueType::tensor(DType::i64, ir::Dims{}));
  const ir::ValueId condition = body->add_input("condition", ir::ValueType::tensor(DType::boolean, ir::Dims{}));
  ir::Attributes attributes = seed;
  attributes["shape"] = std::vector<std::int64_t>{kSize};
  body->set_outputs({condition, body->add_op("RandomNormal", {}, attributes)});
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId drawn =
      graph->add_op("Loop", {builder.constant(Tensor::scalar(std::int64_t{5})), builder.constant(Tensor::scalar(true))},
                    {{"body", ir::SubgraphPointer(body)}});
  name_output(*graph, drawn, "drawn");
  return Model(graph);
}

TEST(RandomDraws, DifferFromIterationToIteration) {
  for (const ir::Attributes& seed : {ir::Attributes{}, ir::Attributes{{"seed", 3.0f}}}) {
    Session one(looping_model(seed), {.seed = 4}), two(looping_model(seed), {.seed = 4});
    std::set<Numbers> rows;
    for (int run = 0; run < 2; ++run) {
      const Numbers drawn = numbers_of(one.run({}).at("drawn"));
      EXPECT_EQ(numbers_of(two.run({}).at("drawn")), drawn);
      ASSERT_EQ(drawn.size(), 5u * kSize);
      for (std::int64_t i = 0; i < 5; ++i) rows.insert({drawn.begin() + i * kSize, drawn.begin() + (i + 1) * kSize});
    }
    EXPECT_EQ(rows.size(), 10u);
  }
}

TEST(RandomDraws, ModelsWithoutThemNeedNoSeed) {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{kSize}));
  name_output(*graph, builder.add("Relu", {builder.add("Dropout", {x})}), "y");
  EXPECT_FALSE(Session(Model(graph)).draws_random_numbers());
}

}  // namespace
}  // namespace tessera::test::random_draws_test
