#include "cost/correction.h"

#include <gtest/gtest.h>

#include "cost/roofline.h"

namespace tessera::test {
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
}  // namespace tessera::test
