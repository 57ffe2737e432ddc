#include "tessera/watermark.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "models/models.h"
#include "protect/watermark/marked_weights.h"
#include "report/values/value_files.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "tessera/optimise.h"
#include "tessera/protect.h"
#include "tessera/prune.h"
#include "tessera/quantise.h"
#include "tessera/train.h"

namespace tessera::watermark_test {
namespace {

using test::expect_error_containing;

Model net(const std::string& name, std::uint64_t seed) {
  return Model(std::make_shared<const ir::Graph>(models::build_model(name, {.dims = {{"batch", 16}}, .seed = seed})));
}

// Images of ten classes that differ in where they are bright.
std::map<std::string, Tensor> samples(std::int64_t count, std::uint64_t seed) {
  Tensor x = test::random_tensor(DType::f32, {count, 1, 28, 28}, seed, 0, 1), y(DType::i64, {count});
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = y.mutable_data<std::int64_t>()[i] = i % 10;
    for (std::int64_t k = 0; k < 70; ++k) x.mutable_data<float>()[i * 784 + label * 70 + k] += 1;
  }
  return {{"input", x}, {"y", y}};
}

Model fine_tuned(const Model& model, std::uint64_t seed) {
  TrainingConfig config;
  config.data.train_arrays = samples(320, seed);
  config.data.batch = 16;
  config.optimiser = {.name = "adam", .learning_rate = 0.001};
  config.steps = 40;
  config.seed = seed;
  Trainer trainer(model, config);
  trainer.run();
  return trainer.model();
}

class Watermark : public testing::Test {
 protected:
  Watermark() { write_new_keys(keys); }
  WatermarkFinding find(const Model& model, const std::string& identity = "customer-7") const {
    return find_watermarks(model, std::span(&identity, 1), key)[0];
  }
  Model mark(const Model& model, WatermarkReport* report = nullptr) const {
    return add_watermark(model, "customer-7", key, report);
  }

  test::TemporaryFolder folder;
  const std::filesystem::path keys = folder / "keys", key = keys / "model.key";
};

TEST_F(Watermark, IsFoundByItsKeyAndIdentityAlone) {
  const Model plain = net("lenet5", 1);
  WatermarkReport report;
  const Model marked = mark(plain, &report);
  EXPECT_GE(report.score, 15.9);
  EXPECT_LE(report.strength, 0.1);
  EXPECT_GT(report.weights, 60000);
  EXPECT_TRUE(find(marked).is_found);
  EXPECT_GE(find(marked).score, report.score - 0.01);  // another order may score more by chance
  EXPECT_FALSE(find(plain).is_found);
  EXPECT_FALSE(find(marked, "customer-8").is_found);
  write_new_keys(folder / "other");
  const std::string identity = "customer-7";
  EXPECT_FALSE(find_watermarks(marked, std::span(&identity, 1), folder / "other/model.key")[0].is_found);
}

// Of n Rademacher signs, the weighted and normalised sum is above t with a probability of at most exp(-t²/2).
TEST_F(Watermark, HasTheThresholdOfHoeffdingsInequality) {
  const Model plain = net("lenet5", 1);
  EXPECT_NEAR(find(plain).threshold, std::sqrt(2 * std::log(2 / 1e-9)), 1e-9);
  const std::vector<std::string> many(10, "x");
  EXPECT_NEAR(find_watermarks(plain, many, key)[0].threshold, std::sqrt(2 * std::log(20 / 1e-9)), 1e-9);
}

// How many models the two tests below try: a few show that nothing is broken, and a run with
// TESSERA_WATERMARK_MODELS=1000 gives the rates of docs/protect.md, which it prints.
int models_or(int usual) {
  const char* const wish = std::getenv("TESSERA_WATERMARK_MODELS");
  return wish == nullptr ? usual : std::atoi(wish);
}

// The attacks' names, with how often the mark was found and the lowest score.
struct Survival {
  int tried = 0, found = 0;
  double least = 1000;
  void count(const WatermarkFinding& finding) {
    ++tried;
    found += finding.is_found ? 1 : 0;
    least = std::min(least, finding.score);
  }
};

TEST_F(Watermark, SurvivesFineTuningPruningAndQuantisation) {
  QuantiseOptions full;
  full.full = true;
  full.data.path = (folder / "calibration.npz").string();
  full.diagnose = false;
  report::write_values_npz(full.data.path, {{"input", samples(64, 99).at("input")}});
  std::map<std::string, Survival> attacks;
  const int models = models_or(2);
  for (int model = 0; model < models; ++model) {
    const std::uint64_t seed = 10 * static_cast<std::uint64_t>(model);
    const Model marked = mark(fine_tuned(net("lenet5", seed + 1), seed + 2));
    const Model pruned = prune(marked, {.sparsity = 0.3}), tuned = fine_tuned(marked, seed + 3);
    attacks["fine-tuned"].count(find(tuned));
    attacks["30% pruned"].count(find(pruned));
    attacks["int8"].count(find(quantise(marked, full).model));
    attacks["50% pruned"].count(find(prune(marked, {.sparsity = 0.5})));
    attacks["all three"].count(find(quantise(prune(tuned, {.sparsity = 0.3}), full).model));
  }
  for (const auto& [name, survival] : attacks) {
    std::printf("%s: found in %d of %d, lowest score %.1f\n", name.c_str(), survival.found, survival.tried,
                survival.least);
    EXPECT_GE(survival.found, std::ceil(0.99 * survival.tried)) << name;
  }
}

TEST_F(Watermark, IsNotFoundInUnmarkedModels) {
  int found = 0;
  double most = -100;
  const int models = models_or(100);
  for (int model = 1; model <= models; ++model) {
    const auto seed = static_cast<std::uint64_t>(model);
    const WatermarkFinding finding = find(net("lenet5", seed), "customer-" + std::to_string(seed));
    found += finding.is_found ? 1 : 0;
    most = std::max(most, finding.score);
  }
  std::printf("found in %d of %d unmarked models, highest score %.1f\n", found, models, most);
  EXPECT_EQ(found, 0);
  EXPECT_LT(most, 6);  // the largest of 2,000 normal numbers is above 6 with a probability of 2e-6
  EXPECT_GT(most, 1);  // and the scores are no constants
}

TEST_F(Watermark, IsFoundInOptimisedAndProtectedFiles) {
  for (const char* name : {"lenet5", "resnet8", "transformer_small"}) {
    const Model marked = mark(net(name, 4));
    optimise(marked, folder / "plain.tsr");
    EXPECT_TRUE(find(Model::load(folder / "plain.tsr")).is_found) << name;
    protect_model(marked, folder / "safe.tsr", {.keys = {{.file = key.string()}}, .publisher = ""});
    EXPECT_TRUE(find(Model::load(folder / "safe.tsr", {}, make_model_key({.file = key.string()}))).is_found) << name;
  }
}

TEST_F(Watermark, IsFoundInTheMeanOfTwoCopies) {
  const Model plain = net("lenet5", 6), first = mark(plain), second = add_watermark(plain, "customer-8", key);
  ir::Graph mean = first.graph();
  for (const ir::ValueId id : protect::markable_constants(mean, false)) {
    Tensor both = mean.constant(id)->clone();
    const Tensor* const other = second.graph().constant(id);
    for (std::int64_t i = 0; i < both.elements(); ++i)
      both.mutable_data<float>()[i] = (both.data<float>()[i] + other->data<float>()[i]) / 2;
    mean.become_constant(id, both);
  }
  const Model averaged(std::make_shared<const ir::Graph>(std::move(mean)));
  EXPECT_TRUE(find(averaged).is_found);
  EXPECT_TRUE(find(averaged, "customer-8").is_found);
  EXPECT_FALSE(find(averaged, "customer-9").is_found);
}

TEST_F(Watermark, KeepsZerosAndMarksNarrowTypes) {
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    ir::Graph graph;
    Tensor weights = test::random_tensor(type, {400, 300}, 5, -1, 1);
    std::fill_n(static_cast<std::byte*>(weights.mutable_raw()), weights.bytes() / 2, std::byte{0});
    const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(type, Shape{2, 400}));
    const ir::ValueId w = graph.add_constant(weights, "w");
    graph.add_output(graph.add_op("MatMul", {x, w}));
    const Model marked = mark(Model(std::make_shared<const ir::Graph>(std::move(graph))));
    const Tensor* const changed = marked.graph().constant(marked.graph().find_value("w"));
    EXPECT_EQ(changed->dtype(), type);
    EXPECT_FALSE(identical(*changed, weights));
    EXPECT_TRUE(std::all_of(static_cast<const std::byte*>(changed->raw()),
                            static_cast<const std::byte*>(changed->raw()) + weights.bytes() / 2,
                            [](std::byte each) { return each == std::byte{0}; }));
    EXPECT_TRUE(find(marked).is_found) << name_of(type);
  }
}

TEST_F(Watermark, ReadsWeightsInCanonicalOrder) {
  ir::Graph graph;
  const Tensor oihw = test::random_tensor(DType::f32, {8, 5, 3, 3}, 6, -1, 1);
  Tensor ohwi(DType::f32, {8, 3, 3, 5});
  for (std::int64_t o = 0; o < 8; ++o)
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t k = 0; k < 9; ++k)
        ohwi.mutable_data<float>()[(o * 9 + k) * 5 + i] = oihw.data<float>()[(o * 5 + i) * 9 + k];
  const ir::ValueId a = graph.add_constant(oihw), b = graph.add_constant(ohwi);
  const auto read = [&](ir::ValueId id) { return protect::read_weight(graph, id, protect::TieOrder::as_stored); };
  EXPECT_EQ(read(a).canonical, (Shape{8, 5, 3, 3}));
  EXPECT_EQ(read(a).values, read(b).values);
  EXPECT_TRUE(identical(protect::stored_tensor(ohwi, read(b)), ohwi));
}

TEST_F(Watermark, TellsWhatItCannotMark) {
  const auto marks = [&](const Model& model, const std::string& identity, const std::filesystem::path& with) {
    return [=] { add_watermark(model, identity, with); };
  };
  const Model lenet = net("lenet5", 1);
  expect_error_containing(ErrorKind::invalid_argument, "identity of a watermark has 0 bytes", marks(lenet, "", key));
  expect_error_containing(ErrorKind::invalid_argument, "kind publisher, expected symmetric",
                          marks(lenet, "x", keys / "publisher.pub"));
  ir::Graph small;
  const ir::ValueId x = small.add_input("x", ir::ValueType::tensor(DType::f32, Shape{2, 20}));
  small.add_output(
      small.add_op("MatMul", {x, small.add_constant(test::random_tensor(DType::f32, {20, 20}, 1, -1, 1))}));
  expect_error_containing(ErrorKind::invalid_argument, "400 weights in matrices and filters are too few",
                          marks(Model(std::make_shared<const ir::Graph>(std::move(small))), "x", key));
  optimise(lenet, folder / "package.tsr");
  expect_error_containing(ErrorKind::invalid_argument, "weights of a package are packed",
                          marks(Model::load(folder / "package.tsr"), "x", key));
}

}  // namespace
}  // namespace tessera::watermark_test
