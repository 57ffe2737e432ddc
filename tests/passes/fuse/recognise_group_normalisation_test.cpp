// Group normalisation as PyTorch exports it, between reshapes, and what only resembles it.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::recognise_group_normalisation_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kGroups =
    "graph { input %x : f32[batch, 6, 2, 3] constant %n = i64[3] {0, 2, -1} constant %ones = f32[2] {1, 1} constant "
    "%zeros = f32[2] {0, 0} constant %g = f32[6, 1, 1] {1, 2, 3, 4, 5, 6} "
    "constant %b = f32[6, 1, 1] {-1, 0, 1, 2, 3, 4} %r = Reshape (%x, %n) ";
const std::string kBack = "%t = Shape (%x) %u = Reshape (%i, %t) %s = Mul (%u, %g) %y = Add (%s, %b) output %y }";

TEST(RecogniseGroupNormalisation, BetweenReshapes) {
  const Lines whole{"%y = GroupNormalization (%x, %?, %?) {epsilon = 1e-05, num_groups = 2}"};
  const std::string name = "recognise_group_normalisation";
  test::expect_rewritten(kGroups + "%i = InstanceNormalization (%r, %ones, %zeros) " + kBack, name, whole, 100);
  test::expect_rewritten(kGroups +
                             "constant %row = f32[18] {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1} %i = "
                             "LayerNormalization (%r, %row) " +
                             kBack,
                         name, whole, 100);
  test::expect_rewritten(
      kGroups + "%i = InstanceNormalization (%r, %ones, %zeros) %t = Shape (%x) %y = Reshape (%i, %t) output %y }",
      name, whole, 100);
}

TEST(RecogniseGroupNormalisation, LeavesOthers) {
  const std::string name = "recognise_group_normalisation";
  test::expect_left_alone(kGroups + "constant %o = f32[2] {1, 2} %i = InstanceNormalization (%r, %o, %zeros) " + kBack,
                          name);  // a scale a group
  test::expect_left_alone(kGroups +
                              "%i = InstanceNormalization (%r, %ones, %zeros) %z = Neg (%i) %t = Shape (%x) %y = "
                              "Reshape (%i, %t) output %y, %z }",
                          name);
  test::expect_left_alone(kGroups +
                              "constant %k = i64[3] {0, 6, 6} %i = InstanceNormalization (%r, %ones, %zeros) %y = "
                              "Reshape (%i, %k) output %y }",
                          name);  // another shape than before
  // Groups that cross samples.
  test::expect_left_alone(
      "graph { input %x : f32[4, 6, 2, 3] constant %n = i64[3] {2, 2, 36} constant %ones = f32[2] {1, 1} constant "
      "%zeros = f32[2] {0, 0} %r = Reshape (%x, %n) "
      "%i = InstanceNormalization (%r, %ones, %zeros) %t = Shape (%x) %y = Reshape (%i, %t) output %y }",
      name);
}

TEST(RecogniseGroupNormalisation, LeavesTheScaleApartWhereSomethingElseReadsWhatItScales) {
  test::expect_rewritten(kGroups +
                             "%i = InstanceNormalization (%r, %ones, %zeros) %t = Shape (%x) %u = Reshape (%i, %t) "
                             "%s = Mul (%u, %g) %y = Add (%s, %b) output %y, %u }",
                         "recognise_group_normalisation",
                         {"%u = GroupNormalization (%x, %?, %?) {epsilon = 1e-05, num_groups = 2}", "%s = Mul (%u, %g)",
                          "%y = Add (%s, %b)"},
                         100);
}

}  // namespace
}  // namespace tessera::passes::recognise_group_normalisation_test
