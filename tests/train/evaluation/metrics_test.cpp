#include "train/evaluation/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/numbers/philox.h"
#include "support/expect_error.h"

namespace tessera::train::metrics_test {
namespace {

using test::expect_error_containing;

double value_of(const std::string& metric, const Tensor& prediction, const Tensor& target) {
  const std::unique_ptr<Metric> made = make_metric(metric);
  made->add(prediction, target);
  return made->value();
}

const Tensor kLogits = Tensor::from<float>({4, 3}, {3, 1, 2,    // 0, then 2
                                                    0, 5, 4,    // 1, then 2
                                                    1, 2, 3,    // 2, then 1
                                                    9, 8, 7});  // 0, then 1
const Tensor kLabels = Tensor::from<std::int64_t>({4}, {0, 2, 2, 1});

TEST(Metrics, CountTheLabelsWithTheLargestLogits) {
  EXPECT_DOUBLE_EQ(value_of("accuracy", kLogits, kLabels), 0.5);
  EXPECT_DOUBLE_EQ(value_of("top_k:1", kLogits, kLabels), 0.5);
  EXPECT_DOUBLE_EQ(value_of("top_k:2", kLogits, kLabels), 1.0);
}

TEST(Metrics, AreOverAllBatches) {
  const std::unique_ptr<Metric> accuracy = make_metric("accuracy");
  EXPECT_TRUE(std::isnan(accuracy->value()));
  accuracy->add(kLogits, kLabels);
  accuracy->add(Tensor::from<float>({1, 3}, {0, 0, 1}), Tensor::from<std::int64_t>({1}, {2}));
  EXPECT_DOUBLE_EQ(accuracy->value(), 3.0 / 5);
}

TEST(Metrics, TakeClassesAlongTheFirstOrTheLastAxis) {
  // Two samples of two positions and three classes; the labels of sample 1 are ignored at its first position.
  const Tensor first = Tensor::from<float>({2, 3, 2}, {5, 0, 0, 6, 0, 0, 1, 1, 2, 3, 3, 0});
  const Tensor last = Tensor::from<float>({2, 2, 3}, {5, 0, 0, 0, 6, 0, 1, 2, 3, 1, 3, 0});
  const Tensor labels = Tensor::from<std::int64_t>({2, 2}, {0, 2, -100, 1});
  for (const Tensor& logits : {first, last}) {
    EXPECT_DOUBLE_EQ(value_of("accuracy", logits, labels), 2.0 / 3);
    // Class 0: 1 right. Class 1: 1 right, 1 too many. Class 2: 1 missed.
    EXPECT_DOUBLE_EQ(value_of("mean_iou", logits, labels), (1 + 0.5 + 0) / 3);
    EXPECT_DOUBLE_EQ(value_of("f1", logits, labels), (1 + 2.0 / 3 + 0) / 3);
  }
}

TEST(Metrics, PerplexityIsTheExponentialOfTheMeanCrossEntropy) {
  const Tensor logits = Tensor::from<float>({2, 2}, {0, 0, 1000, std::log(3.0f) + 1000});
  EXPECT_NEAR(value_of("perplexity", logits, Tensor::from<std::int64_t>({2}, {1, 1})),
              std::exp((std::log(2.0) + std::log(4.0 / 3)) / 2), 1e-4);
}

TEST(Metrics, AreaUnderTheCurveCountsPairs) {
  base::Philox numbers(7);
  std::vector<float> scores, targets;
  for (int i = 0; i < 200; ++i) {
    scores.push_back(static_cast<float>(numbers.next_integer(0, 30)));  // with ties
    targets.push_back(numbers.next_uniform() < 0.3 ? 1.0f : 0.0f);
  }
  double better = 0, pairs = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (targets[i] < 0.5f || targets[j] > 0.5f) continue;
      pairs += 1;
      better += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  EXPECT_NEAR(value_of("auc", Tensor::from<float>({200, 1}, scores), Tensor::from<float>({200, 1}, targets)),
              better / pairs, 1e-12);
  EXPECT_TRUE(std::isnan(value_of("auc", Tensor::from<float>({2}, {1, 2}), Tensor::from<float>({2}, {1, 1}))));
}

TEST(Metrics, OneScoreBelongsToThePositiveClass) {
  const Tensor scores = Tensor::from<float>({5, 1}, {2, -1, 3, -2, 1});
  const Tensor targets = Tensor::from<std::int64_t>({5}, {1, 1, 0, 0, 1});
  EXPECT_DOUBLE_EQ(value_of("accuracy", scores, targets), 3.0 / 5);
  EXPECT_DOUBLE_EQ(value_of("f1", scores, targets), 4.0 / 6);
}

// The figures are scikit-learn's: roc_auc_score with multi_class="ovr", and precision_recall_fscore_support.
TEST(Metrics, OfSeveralClassesAreMeansOverThem) {
  const Tensor logits = Tensor::from<float>({6, 3}, {1, -2, 0.5, 0.25, 1.5, -1, 2, 0, 1,  //
                                                     -0.5, 0.75, 1.25, 0.5, 0.5, 3, 1, 2, 0});
  const Tensor labels = Tensor::from<std::int64_t>({6}, {0, 1, 2, 2, 2, 0});
  EXPECT_NEAR(value_of("auc", logits, labels), 0.8796296296296297, 1e-7);
  EXPECT_NEAR(value_of("precision", logits, labels), 0.6666666666666666, 1e-12);
  EXPECT_NEAR(value_of("recall", logits, labels), 0.7222222222222222, 1e-12);
  EXPECT_NEAR(value_of("f1", logits, labels), 0.6555555555555556, 1e-12);
}

// The figures are those of scikit-learn's r2_score and so on.
TEST(Metrics, OfNumbersAreMeansOverOutputs) {
  const Tensor target = Tensor::from<float>({4, 2}, {1, 2, 3, 4, 5, 7, -2, 0});
  const Tensor prediction = Tensor::from<float>({4, 2}, {1.5, 2, 2.5, 5, 5, 6, -1, 1});
  EXPECT_NEAR(value_of("r2", prediction, target), 0.9158878504672897, 1e-12);
  EXPECT_NEAR(value_of("mae", prediction, target), 0.625, 1e-12);
  EXPECT_NEAR(value_of("mse", prediction, target), 0.5625, 1e-12);
  EXPECT_NEAR(value_of("rmse", prediction, target), 0.7391989197401165, 1e-12);
  const Tensor column = Tensor::from<float>({2, 1}, {3, 3}), row = Tensor::from<float>({2}, {3, 3});
  EXPECT_EQ(value_of("r2", column, row), 1);
  EXPECT_EQ(value_of("r2", Tensor::from<float>({2}, {3, 4}), row), 0);
  EXPECT_FALSE(larger_is_better("rmse"));
  EXPECT_TRUE(larger_is_better("r2"));
  expect_error_containing(ErrorKind::invalid_argument, "the prediction [4, 2] and the target [2] differ in shape",
                          [&] { value_of("mae", prediction, row); });
}

TEST(Metrics, ReadHalfPrecision) {
  const Tensor logits = Tensor::from<bf16_t>({1, 2}, {bf16_t{0x3f80}, bf16_t{0xbf80}});  // 1, −1
  EXPECT_DOUBLE_EQ(value_of("accuracy", logits, Tensor::from<std::int64_t>({1}, {0})), 1.0);
  EXPECT_DOUBLE_EQ(value_of("accuracy", logits, Tensor::from<std::int64_t>({1}, {1})), 0.0);
}

TEST(Metrics, RefuseWhatDoesNotFit) {
  expect_error_containing(ErrorKind::invalid_argument,
                          "unknown metric 'kappa'; there are accuracy, top_k, auc, precision, recall, f1, perplexity, "
                          "mean_iou, r2, mae, mse, rmse, and loss",
                          [] { make_metric("kappa"); });
  expect_error_containing(ErrorKind::invalid_argument, "metric 'top_k': expected top_k:K",
                          [] { make_metric("top_k"); });
  expect_error_containing(ErrorKind::invalid_argument, "labels [3] do not fit a prediction [4, 3]",
                          [] { value_of("accuracy", kLogits, Tensor::from<std::int64_t>({3}, {0, 1, 2})); });
  expect_error_containing(ErrorKind::invalid_argument, "the label 3 is no class: there are 3",
                          [] { value_of("accuracy", kLogits, Tensor::from<std::int64_t>({4}, {0, 1, 2, 3})); });
  EXPECT_TRUE(larger_is_better("auc"));
  EXPECT_FALSE(larger_is_better("perplexity"));
}

}  // namespace
}  // namespace tessera::train::metrics_test
