#include "train/evaluation/class_counts.h"

#include <gtest/gtest.h>

namespace tessera::train::class_counts_test {
namespace {

// The figures are those of scikit-learn's confusion_matrix and precision_recall_fscore_support.
TEST(ClassCounts, AgreeWithScikitLearn) {
  const Tensor logits = Tensor::from<float>({6, 3}, {1, -2, 0.5, 0.25, 1.5, -1, 2, 0, 1,  //
                                                     -0.5, 0.75, 1.25, 0.5, 0.5, 3, 1, 2, 0});
  ClassCounts counts(-100);
  EXPECT_FALSE(counts.report({}).has_value());
  counts.add(logits, Tensor::from<std::int64_t>({6}, {0, 1, 2, 2, 2, 0}));
  counts.add(logits, Tensor::from<std::int64_t>({6}, {-100, -100, -100, -100, -100, -100}));
  const ClassReport report = counts.report({"cat", "dog"}).value();
  EXPECT_EQ(report.confusion, (std::vector<std::int64_t>{1, 1, 0, 0, 1, 0, 1, 0, 2}));
  ASSERT_EQ(report.classes.size(), 3u);
  EXPECT_EQ(report.classes[0].name, "cat");
  EXPECT_EQ(report.classes[2].name, "2");
  EXPECT_DOUBLE_EQ(*report.classes[0].precision, 0.5);
  EXPECT_DOUBLE_EQ(*report.classes[1].recall, 1);
  EXPECT_DOUBLE_EQ(*report.classes[1].f1, 2.0 / 3);
  EXPECT_DOUBLE_EQ(*report.classes[2].precision, 1);
  EXPECT_DOUBLE_EQ(*report.classes[2].recall, 2.0 / 3);
  EXPECT_EQ(report.classes[2].support, 3);
}

TEST(ClassCounts, OfScoresAreOfTwoClasses) {
  ClassCounts counts(-100);
  counts.add(Tensor::from<float>({4, 1}, {1, -1, 2, -2}), Tensor::from<float>({4}, {1, 1, 0, 0}));
  EXPECT_EQ(counts.report({})->confusion, (std::vector<std::int64_t>{1, 1, 1, 1}));
}

TEST(ClassCounts, HaveNoPrecisionOfWhatIsNeverPredicted) {
  ClassCounts counts(-100);
  counts.add(Tensor::from<float>({2, 2}, {1, 0, 1, 0}), Tensor::from<std::int64_t>({2}, {0, 1}));
  EXPECT_FALSE(counts.report({})->classes[1].precision.has_value());
  EXPECT_EQ(counts.report({})->classes[1].recall, 0);
}

}  // namespace
}  // namespace tessera::train::class_counts_test
