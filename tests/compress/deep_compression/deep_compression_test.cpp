#include "tessera/deep_compression.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "compress/core/folds.h"
#include "io/npz.h"
#include "ir/graph.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"

namespace tessera::compress::deep_compression_test {
namespace {

using test::expect_error_containing;

constexpr std::int64_t kSamples = 120, kClasses = 4, kFeatures = 32;

// Classes that lie around four centres.
std::map<std::string, Tensor> clusters() {
  Tensor x = test::random_tensor(DType::f32, {kSamples, kFeatures}, 1, -1, 1), y(DType::i64, {kSamples});
  const Tensor centres = test::random_tensor(DType::f32, {kClasses, kFeatures}, 77, -1, 1);
  for (std::int64_t i = 0; i < kSamples; ++i) {
    y.mutable_data<std::int64_t>()[i] = i % kClasses;
    for (std::int64_t k = 0; k < kFeatures; ++k)
      x.mutable_data<float>()[i * kFeatures + k] += centres.data<float>()[i % kClasses * kFeatures + k];
  }
  return {{"input", x}, {"y", y}};
}

CompressionRecipe small(const test::TemporaryFolder& folder) {
  CompressionRecipe recipe = parse_compression_recipe(
      "folds = 2\n[model]\nbuilder = \"mlp\"\noptions = { features = 32, width = 64, classes = 4 }\n"
      "[data]\ntrain = \"none\"\nbatch = 10\nworkers = 1\n[optimiser]\nname = \"adam\"\nlearning_rate = 0.01\n"
      "[train]\nepochs = 6\n[prune]\nsparsity = 0.9\n[share]\nbits = 3\nlayers = { \"classifier*\" = 5 }\n"
      "[tune]\nepochs = 2\n",
      "test");
  recipe.training.output = folder.path().string();
  recipe.training.data.train_arrays = clusters();
  return recipe;
}

TEST(DeepCompression, MakesSmallPackagesThatRun) {
  const test::TemporaryFolder folder;
  int told = 0;
  std::set<std::string> stages;
  CompressionHooks hooks;
  hooks.fold = [&](const CompressedFold&) { ++told; };
  hooks.progress = [&](std::int64_t, const std::string& stage, std::int64_t, std::int64_t) { stages.insert(stage); };
  const std::vector<CompressedFold> folds = run_deep_compression(small(folder), hooks);
  ASSERT_EQ(folds.size(), 2u);
  EXPECT_EQ(told, 2);
  EXPECT_EQ(stages, (std::set<std::string>{"dense", "pruned", "shared"}));
  for (const CompressedFold& fold : folds) {
    EXPECT_EQ(fold.metric, "accuracy");
    EXPECT_EQ(fold.parameters, 32 * 64 + 64 + 64 * 64 + 64 + 64 * 4 + 4);
    EXPECT_EQ(static_cast<std::uintmax_t>(fold.file_bytes), std::filesystem::file_size(fold.path));
    EXPECT_GT(fold.ratio(), 5);
    EXPECT_GT(fold.compressed, 0.9);
    // The package computes what the last stage trained.
    EXPECT_EQ(fold.compressed, fold.shared);
    ASSERT_EQ(fold.layers.size(), 3u);
    EXPECT_NEAR(static_cast<double>(fold.layers[0].nonzero), 0.1 * 32 * 64, 1);
    EXPECT_LE(fold.layers[0].values, 8);
    EXPECT_GT(fold.layers[2].values, 8);
    const Model model = Model::load(fold.path);
    const Tensor& weights = *model.graph().constant(model.graph().find_value("fc1.weight"));
    std::set<float> values(weights.data<float>(), weights.data<float>() + weights.elements());
    EXPECT_LE(values.size(), 9u);
    EXPECT_TRUE(values.contains(0.0f));
  }
}

TEST(Folds, TestEverySampleOnce) {
  TrainingData data;
  Tensor numbers(DType::i64, {11});
  for (std::int64_t i = 0; i < 11; ++i) numbers.mutable_data<std::int64_t>()[i] = i;
  const test::TemporaryFolder folder;
  io::write_npz(folder / "train.npz", {{"y", numbers}});
  data.train = (folder / "train.npz").string();
  Tensor more(DType::i64, {2});
  more.mutable_data<std::int64_t>()[0] = 11;
  more.mutable_data<std::int64_t>()[1] = 12;
  data.test_arrays = {{"y", more}};
  std::multiset<std::int64_t> tested;
  for (std::int64_t fold = 0; fold < 3; ++fold) {
    const TrainingData divided = fold_of(data, 3, fold, 5);
    const auto test = divided.test_arrays.at("y").values<std::int64_t>(),
               train = divided.train_arrays.at("y").values<std::int64_t>();
    EXPECT_EQ(test.size() + train.size(), 13u);
    tested.insert(test.begin(), test.end());
    for (const std::int64_t sample : test) EXPECT_EQ(std::ranges::count(train, sample), 0);
  }
  EXPECT_EQ(tested.size(), 13u);
  EXPECT_EQ(std::set<std::int64_t>(tested.begin(), tested.end()).size(), 13u);
}

TEST(Folds, RefuseWhatCannotBeDivided) {
  TrainingData data;
  data.train = "pictures";
  expect_error_containing(ErrorKind::invalid_argument, "folds need data in .npz files, not 'pictures'",
                          [&] { fold_of(data, 5, 0, 0); });
  data.train_arrays = clusters();
  expect_error_containing(ErrorKind::invalid_argument, "120 samples cannot be divided into 121 folds",
                          [&] { fold_of(data, 121, 0, 0); });
  data.test_arrays = clusters();
  data.test_arrays.erase("y");
  expect_error_containing(ErrorKind::invalid_argument, "field 'y' of the training data is missing or another",
                          [&] { fold_of(data, 2, 0, 0); });
}

TEST(DeepCompression, RefusesRecipesThatDoNotFit) {
  const test::TemporaryFolder folder;
  CompressionRecipe recipe = small(folder);
  recipe.training.prune.reset();
  expect_error_containing(ErrorKind::invalid_argument, "the table [prune] is missing",
                          [&] { run_deep_compression(recipe); });
  recipe = small(folder);
  recipe.folds = 1;
  expect_error_containing(ErrorKind::invalid_argument, "folds is 1, expected 0 or at least 2",
                          [&] { run_deep_compression(recipe); });
  recipe = small(folder);
  recipe.training.output = "";
  expect_error_containing(ErrorKind::invalid_argument, "'output' is missing", [&] { run_deep_compression(recipe); });
  expect_error_containing(ErrorKind::invalid_argument, "share.bits is 9, expected 1 to 8 bits",
                          [] { parse_compression_recipe("[share]\nbits = 9\n", "test"); });
  expect_error_containing(ErrorKind::invalid_argument, "share.layers.fc* is 0, expected 1 to 8 bits",
                          [] { parse_compression_recipe("[share]\nlayers = { \"fc*\" = 0 }\n", "test"); });
  expect_error_containing(ErrorKind::invalid_argument, "ratio",
                          [] { parse_compression_recipe("ratio = 3\n", "test"); });
  Cancellation stop;
  stop.cancel();
  expect_error_containing(ErrorKind::cancelled, "the recipe was stopped in its stage 'dense'",
                          [&] { run_deep_compression(small(folder), {.cancellation = &stop}); });
}

}  // namespace
}  // namespace tessera::compress::deep_compression_test
