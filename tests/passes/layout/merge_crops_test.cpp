#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::merge_crops_test {
namespace {

using test::expect_left_alone;
using test::expect_rewritten;

constexpr std::string_view kPass = "merge_crops";
// From 0 to 2, 2 to 5 and 5 to the end.
const std::string kStart =
    "graph { input %x : f32[batch, 7, 3] constant %0 = i64[1] {0} constant %2 = i64[1] {2} constant %5 = i64[1] {5} "
    "constant %end = i64[1] {9223372036854775807} constant %1 = i64[1] {1} ";

TEST(MergeCrops, SlicesThatTakeAllApartBecomeASplit) {
  expect_rewritten(
      kStart +
          "%a = Slice (%x, %0, %2, %1) %b = Slice (%x, %2, %5, %1) %c = Slice (%x, %5, %end, %1) output %a, %b, %c }",
      kPass, {"%a, %b, %c = Split (%x, %?) {axis = 1}"});
}

TEST(MergeCrops, InAnyOrderAndBesideOtherUses) {
  expect_rewritten(kStart +
                       "%c = Slice (%x, %5, %end, %1) %n = Neg (%x) %e = Exp (%c) %a = Slice (%x, %0, %5, %1) %y = Exp "
                       "(%a) output %n, %e, %y }",
                   kPass, {"%a, %c = Split (%x, %?) {axis = 1}", "%n = Neg (%x)", "%e = Exp (%c)", "%y = Exp (%a)"});
}

TEST(MergeCrops, GathersOfNeighbours) {
  expect_rewritten(
      "graph { input %x : i64[batch, 4] constant %0 = i64[1] {0} constant %12 = i64[2] {1, 2} constant %last = i32[1] "
      "{-1} "
      "%a = Gather (%x, %0) {axis = 1} %b = Gather (%x, %12) {axis = 1} %c = Gather (%x, %last) {axis = -1} output %a, "
      "%b, %c }",
      kPass, {"%a, %b, %c = Split (%x, %?) {axis = 1}"});
}

TEST(MergeCrops, WhatLeavesGapsOrOverlapsStays) {
  expect_left_alone(kStart + "%a = Slice (%x, %0, %2, %1) %c = Slice (%x, %5, %end, %1) output %a, %c }", kPass);
  expect_left_alone(kStart + "%a = Slice (%x, %0, %5, %1) %c = Slice (%x, %2, %end, %1) output %a, %c }", kPass);
  expect_left_alone(kStart + "%a = Slice (%x, %0, %5, %1) %c = Slice (%x, %2, %5, %1) output %a, %c }", kPass);
  expect_left_alone(kStart + "%a = Slice (%x, %0, %end, %1) output %a }", kPass);
}

TEST(MergeCrops, OtherStepsAxesAndShapesStay) {
  expect_left_alone(kStart + "%a = Slice (%x, %0, %end, %1, %2) %b = Slice (%x, %1, %end, %1, %2) output %a, %b }",
                    kPass);
  // Along the batch, whose size is not known.
  expect_left_alone(kStart + "%a = Slice (%x, %0, %2, %0) %b = Slice (%x, %2, %end, %0) output %a, %b }", kPass);
  // Without the axis, and in another order.
  expect_left_alone(
      "graph { input %x : f32[2, 3] constant %0 = i64[] {0} constant %1 = i64[] {1} %a = Gather (%x, %0) %b = Gather "
      "(%x, %1) output %a, %b }",
      kPass);
  expect_left_alone(
      "graph { input %x : f32[3, 3] constant %0 = i64[2] {1, 0} constant %1 = i64[1] {2} %a = Gather (%x, %0) %b = "
      "Gather (%x, %1) output %a, %b }",
      kPass);
}

}  // namespace
}  // namespace tessera::passes::merge_crops_test
