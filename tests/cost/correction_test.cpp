#include "cost/correction.h"

#include <gtest/gtest.h>

#include "cost/roofline.h"

namespace tessera::test::correction_test {
namespace {

using cost::Correction;
using cost::Sample;

TEST(Correction, WithoutSamplesNothingChanges) {
  EXPECT_EQ(Correction().factor("cpu_relu", {}), 1);
}

TEST(Correction, NearSamplesOfTheKernelDecide) {
  const Correction correction({{"a", {20, 10}, 2}, {"a", {30, 20}, 8}, {"b", {20, 10}, 100}});
  EXPECT_NEAR(correction.factor("a", {20, 10}), 2, 0.05);
  EXPECT_NEAR(correction.factor("a", {30, 20}), 8, 0.2);
  EXPECT_NEAR(correction.factor("a", {25, 15}), 4, 1e-9);  // the geometric mean in the middle
  EXPECT_NEAR(correction.factor("b", {0, 0}), 100, 1e-9);
}

TEST(Correction, AKernelNeverMeasuredTakesAfterAll) {
  const Correction correction({{"a", {20, 10}, 2}, {"b", {40, 30}, 100}});
  EXPECT_FALSE(correction.knows("c"));
  EXPECT_NEAR(correction.factor("c", {20, 10}), 2, 0.1);
}

TEST(Correction, LearnsTheMedianOfWhatIsAlike) {
  Correction correction({{"a", {20, 10}, 2}, {"a", {30, 20}, 8}});
  const Sample again[] = {
      {"a", {20, 10}, 5, true}, {"a", {20, 10}, 4, true}, {"b", {20, 10}, 7, true}, {"a", {20, 10}, 100, true}};
  correction.learn(again);
  ASSERT_EQ(correction.samples().size(), 3u);  // the new one of "a" stands for the old one
  EXPECT_NEAR(correction.factor("a", {20, 10}), 5, 0.01);
  EXPECT_NEAR(correction.factor("a", {30, 20}), 8, 0.01);
  EXPECT_NEAR(correction.factor("b", {20, 10}), 7, 1e-9);
}

TEST(Correction, WhatWasMeasuredThereCountsMoreThanManyNeighbours) {
  std::vector<Sample> neighbours;
  for (int i = 0; i < 20; ++i) neighbours.push_back({"a", {20, 10, 0, 0.05 * i, 8}, 10});
  Correction correction(neighbours);
  const Sample here[] = {{"a", {20, 10, 0, 0, 9}, 2, true}};
  correction.learn(here);
  EXPECT_NEAR(correction.factor("a", here[0].shape), 2, 0.5);
}

TEST(Correction, ForgetsTheOldestOfWhatItLearned) {
  Correction correction({{"calibrated", {1}, 3}});
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < Correction::kMostLearned + 5; ++i)
    samples.push_back({"a", {static_cast<double>(i)}, 2, true});
  correction.learn(samples);
  EXPECT_EQ(correction.samples().size(), Correction::kMostLearned + 1);
  EXPECT_TRUE(correction.knows("calibrated"));
  EXPECT_EQ(correction.samples()[1].shape[0], 5);
}

TEST(Correction, AnotherIntensityIsFartherThanAnotherSize) {
  const Correction correction({{"a", {22, 21}, 2}, {"a", {22, 23}, 8}});
  EXPECT_LT(correction.factor("a", {23, 22}), 2.1);  // all of it twice
}

TEST(Correction, ScalesTheWorkAndNotItsStart) {
  cost::DeviceProfile device = *cost::find_built_in_profile("cpu");
  cost::Work work{.op = "Relu", .cost = {1e6, 4e6, 4e6}, .kernel = "cpu_relu"};
  const cost::Estimate before = cost::estimate(work, device);
  device.correction = Correction({{"cpu_relu", work.shape_class(), 3}});
  const cost::Estimate after = cost::estimate(work, device);
  EXPECT_NEAR(after.seconds - device.overhead_seconds, 3 * (before.seconds - device.overhead_seconds), 1e-12);
  EXPECT_EQ(after.roof_seconds, before.roof_seconds);
}

}  // namespace
}  // namespace tessera::test::correction_test
