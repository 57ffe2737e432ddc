#include "cost/predictor.h"

#include <gtest/gtest.h>

#include "base/numbers/philox.h"

namespace tessera::cost::predictor_test {
namespace {

TEST(Predictor, LearnsEachKindOfStep) {
  Predictor predictor;
  const std::uint64_t conv = step_key("Conv", 1e9, 1e6), add = step_key("Add", 1e6, 8e6);
  EXPECT_NE(conv, add);
  EXPECT_EQ(predictor.predict(conv, 1000), 1000);
  base::Philox random(5);
  for (int i = 0; i < 200; ++i) {
    for (const auto& [key, modelled, truth] : {std::tuple{conv, 1000.0, 2500.0}, {add, 500.0, 200.0}}) {
      const double measured = truth * (1 + 0.05 * random.next_normal());
      if (predictor.knows(key)) predictor.judge(predictor.predict(key, modelled), measured);
      predictor.learn(key, modelled, measured);
    }
  }
  EXPECT_NEAR(predictor.predict(conv, 1000), 2500, 100);
  EXPECT_NEAR(predictor.predict(add, 500), 200, 8);
  EXPECT_LT(predictor.median_error(), 0.07);
  EXPECT_GT(predictor.median_error(), 0.01);
}

TEST(Predictor, TakesTheUsualCorrectionForUnknownKinds) {
  Predictor predictor;
  for (int i = 0; i < 20; ++i) predictor.learn(step_key("MatMul", i, i), 100, 300);
  EXPECT_NEAR(predictor.predict(step_key("Conv", 1, 1), 100), 300, 1e-6);
}

TEST(Predictor, FollowsAChangeWithinAFewMeasurements) {
  Predictor predictor;
  const std::uint64_t key = step_key("Conv", 1, 1);
  for (int i = 0; i < 50; ++i) predictor.learn(key, 100, 100);
  for (int i = 0; i < 8; ++i) predictor.learn(key, 100, 150);
  EXPECT_NEAR(predictor.predict(key, 100), 150, 1e-4);
}

TEST(Predictor, OneOutlierTeachesNothing) {
  Predictor predictor;
  const std::uint64_t key = step_key("Conv", 1, 1);
  for (int i = 0; i < 50; ++i) predictor.learn(key, 100, 100);
  predictor.learn(key, 100, 1e9);
  EXPECT_NEAR(predictor.predict(key, 100), 100, 1e-6);
}

}  // namespace
}  // namespace tessera::cost::predictor_test
