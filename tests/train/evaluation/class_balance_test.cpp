#include "train/evaluation/class_balance.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "train/data/array_dataset.h"

namespace tessera::train::class_balance_test {
namespace {

using test::expect_error_containing;

std::unique_ptr<Dataset> labelled(Tensor y) {
  return make_array_dataset({{"x", Tensor(DType::f32, {y.shape()[0], 2})}, {"y", y}}, "the data");
}

// sklearn.utils.class_weight.compute_class_weight("balanced", classes=[0, 1, 3], y=[0, 0, 0, 1, 3, 3, 0]).
TEST(ClassBalance, WeighsClassesAsScikitLearn) {
  const auto data = labelled(Tensor::from<std::int64_t>({8}, {0, 0, 0, 1, 3, 3, 0, -100}));
  const std::vector<double> weights = balanced_class_weights(*data, "y", -100);
  ASSERT_EQ(weights.size(), 4u);
  EXPECT_NEAR(weights[0], 0.58333333, 1e-8);
  EXPECT_NEAR(weights[1], 2.33333333, 1e-8);
  EXPECT_EQ(weights[2], 1);  // a class that does not occur
  EXPECT_NEAR(weights[3], 1.16666667, 1e-8);
}

TEST(ClassBalance, CountsNegativeTargetsForEachPositiveOne) {
  const auto several = labelled(Tensor::from<float>({4, 2}, {1, 0, 0, 0, 0, 1, 0, 1}));
  EXPECT_EQ(balanced_pos_weight(*several, "y"), (std::vector<double>{3, 1}));
  const auto one = labelled(Tensor::from<std::int64_t>({5}, {1, 0, 0, 0, 0}));
  EXPECT_EQ(balanced_pos_weight(*one, "y"), std::vector<double>{4});
}

TEST(ClassBalance, GivesSamplesWeights) {
  const auto data = labelled(Tensor::from<std::int32_t>({5}, {1, 0, 0, 0, -100}));
  EXPECT_EQ(balanced_sample_weights(*data, "y", -100), (std::vector<double>{1, 1.0 / 3, 1.0 / 3, 1.0 / 3, 0}));
  const auto weighed = labelled(Tensor::from<float>({3}, {0.5, 0, 2}));
  EXPECT_EQ(sample_weights(*weighed, "y"), (std::vector<double>{0.5, 0, 2}));
}

TEST(ClassBalance, SaysWhatCannotBeBalanced) {
  const auto refuses = [](const std::string& text, auto call) {
    expect_error_containing(ErrorKind::invalid_argument, text, call);
  };
  const auto halves = labelled(Tensor::from<float>({2}, {0.5, 1}));
  refuses("the data sample 0: the label 0.5 is no class", [&] { balanced_class_weights(*halves, "y", -100); });
  refuses("'x' has the shape [2] in a sample", [&] { balanced_sample_weights(*halves, "x", -100); });
  refuses("the data have no field 'z'", [&] { sample_weights(*halves, "z"); });
  const auto negative = labelled(Tensor::from<float>({2}, {-1, 1}));
  refuses("the weight 'y' is -1", [&] { sample_weights(*negative, "y"); });
  const auto none = labelled(Tensor::from<float>({2}, {0, 0}));
  refuses("all weights 'y' of the training data are 0", [&] { sample_weights(*none, "y"); });
  refuses("no target of the training data is positive", [&] { balanced_pos_weight(*none, "y"); });
}

}  // namespace
}  // namespace tessera::train::class_balance_test
