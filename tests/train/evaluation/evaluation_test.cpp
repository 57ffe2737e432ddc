#include "train/evaluation/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "support/expect_error.h"
#include "train/run/trainer_support.h"

namespace tessera::train::evaluation_test {
namespace {

using namespace test_training;
using test::expect_error_containing;

// The half that cannot be read counts for nothing, neither by itself nor by what stands in its place.
TEST(Evaluator, EvaluatesSamplesAloneThatCanBeRead) {
  const std::map<std::string, Tensor> arrays = clusters(2);
  SampleSource source;
  source.fields = {{"x", DType::f32, {kFeatures}}, {"y", DType::i64, {}}};
  source.size = kSamples;
  source.read = [&](std::int64_t i) -> std::map<std::string, Tensor> {
    if (i % 3 == 1 || i > 71) throw Error(ErrorKind::io, "the disk is broken there");
    return {{"x", Tensor::from<float>({kFeatures}, arrays.at("x").values<float>().subspan(
                                                       static_cast<std::size_t>(i * kFeatures), kFeatures))},
            {"y", Tensor::scalar(i % kClasses)}};
  };
  std::map<std::string, Tensor> readable = {{"x", Tensor(DType::f32, {48, kFeatures})},
                                            {"y", Tensor(DType::i64, {48})}};
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i <= 71; ++i) {
    if (i % 3 == 1) continue;
    std::copy_n(arrays.at("x").data<float>() + i * kFeatures, kFeatures,
                readable.at("x").mutable_data<float>() + kept * kFeatures);
    readable.at("y").mutable_data<std::int64_t>()[kept++] = i % kClasses;
  }
  ASSERT_EQ(kept, 48);
  TrainingConfig config = small();
  config.steps = 5;
  config.data.test_arrays = readable;
  const EvaluationReport expected = *Trainer(two_layers(), config).run().evaluation;
  EXPECT_EQ(expected.skipped_samples, 0);
  config.data.test_arrays.clear();
  config.data.test_source = source;
  // A net of a fixed batch gets batches that copies fill up.
  for (const bool fixed : {false, true}) {
    const Model net = fixed ? two_layers().with_dims({{"batch", 16}}) : two_layers();
    const EvaluationReport found = *Trainer(net, config).run().evaluation;
    EXPECT_EQ(found.samples, 48);
    EXPECT_EQ(found.skipped_samples, kSamples - 48);
    EXPECT_NE(found.skipped_reasons.at(0).find("the disk is broken there"), std::string::npos);
    EXPECT_EQ(found.value, expected.value);
    EXPECT_NEAR(found.loss, expected.loss, 1e-5);
  }
}

TEST(Evaluator, LogsInTheOrderOfTheSteps) {
  const test::TemporaryFolder folder;
  TrainingConfig config = small();
  config.output = folder.path().string();
  config.evaluate_every = 7;
  std::vector<std::int64_t> told;
  TrainingHooks hooks;
  hooks.step = [&](const StepReport& line) { told.push_back(line.step); };
  hooks.evaluation = [&](const EvaluationReport& line) { told.push_back(line.step); };
  Trainer(two_layers(), config).run(hooks);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_EQ(told.size(), 60u + 9u);
}

}  // namespace
}  // namespace tessera::train::evaluation_test
