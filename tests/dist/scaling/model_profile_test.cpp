#include "dist/scaling/model_profile.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace tessera::dist::model_profile_test {
namespace {

cost::Evaluation evaluation(double seconds, double operations) {
  cost::Evaluation result;
  result.total.seconds = seconds;
  result.total.operations = operations;
  result.layers.resize(3);
  result.layers[0].estimate.bound = cost::Bound::arithmetic;
  result.layers[1].estimate.bound = cost::Bound::overhead;  // the third is a view
  return result;
}

TEST(ModelProfile, ASampleIsTheDifferenceOfTwoBatches) {
  const TrainingProfile profile =
      profile_of_evaluations(evaluation(5e-3, 1e9), evaluation(9e-3, 1.8e9), 4, 1e6, 500, "net");
  EXPECT_DOUBLE_EQ(*profile.sample_seconds, 1e-3);
  EXPECT_DOUBLE_EQ(profile.operations_per_sample, 0.2e9);
  EXPECT_EQ(profile.kernels, 2);
  EXPECT_EQ(profile.most_gpu_batch, 4);
  EXPECT_FALSE(profile.measured);
  test::expect_error_containing(ErrorKind::invalid_argument, "'net' has no parameters",
                                [] { profile_of_evaluations(evaluation(1, 1), evaluation(2, 2), 1, 0, 500, "net"); });
}

TEST(ModelProfile, ParametersAreFloatingPointConstants) {
  ir::Graph graph;
  graph.add_constant(Tensor::from<float>({2, 3}, std::vector<float>(6)), "weights");
  graph.add_constant(Tensor::from<std::int64_t>({2}, std::vector<std::int64_t>{1, 2}), "shape");
  EXPECT_EQ(count_parameters(graph), 6);
}

}  // namespace
}  // namespace tessera::dist::model_profile_test
