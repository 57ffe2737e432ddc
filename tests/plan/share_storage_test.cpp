// Which values of a plan share bytes, and that they still hold what they should.
#include <gtest/gtest.h>

#include "backends/cpu/cpu_device.h"
#include "plan/plan.h"
#include "runtime/session/random_inputs.h"
#include "support/evaluate_graph.h"
#include "support/pass_context.h"
#include "tessera/session.h"

namespace tessera::plan::share_storage_test {
namespace {

// None of these layers packs weights.
class NoWeights final : public backends::WeightStore {
 public:
  std::shared_ptr<const backends::PackedWeights> find_or_pack(const Tensor&, std::string_view, std::int64_t,
                                                              const backends::PackFunction&) override {
    return nullptr;
  }
};

std::shared_ptr<const Plan> planned(const std::string& text, const PlanOptions& options = {}) {
  NoWeights weights;
  return make_plan(test::parsed(text), backends::cpu_device(), weights, options);
}

// "alias of %root+offset" and so on, by the value's name.
std::string place(const Plan& plan, const std::string& name) {
  for (const Slot& slot : plan.slots) {
    if (!slot.value.valid() || plan.graph.value(slot.value).name != name) continue;
    if (slot.place == Place::arena) return "arena";
    if (slot.place == Place::result) return "result";
    if (slot.place != Place::alias) return "other";
    return plan.graph.value(plan.slots[static_cast<std::size_t>(slot.source)].value).name + "+" +
           std::to_string(slot.view_offset);
  }
  return "none";
}

// The session's outputs, with all passes off, are what node by node evaluation gives, to the bit.
void expect_right(const std::string& text) {
  const Model model(std::make_shared<const ir::Graph>(test::parsed(text)));
  const NamedValues inputs = runtime::random_inputs(model, 3);
  SessionOptions options;
  for (const passes::Pass& pass : passes::all_passes()) options.without_passes.emplace_back(pass.name);
  Session session(model, options);
  const std::vector<Value> expected = test::evaluate_graph(model.graph(), inputs);
  for (int run = 0; run < 2; ++run) {
    const NamedValues got = session.run(inputs);
    for (const ir::ValueId output : model.graph().outputs()) {
      EXPECT_TRUE(identical(got.at(model.graph().value(output).name).tensor(),
                            expected[static_cast<std::size_t>(output.index)].tensor()))
          << text;
    }
  }
}

const std::string kBounds =
    "constant %0 = i64[1] {0} constant %1 = i64[1] {1} constant %2 = i64[1] {2} constant %4 = i64[1] {4} ";

TEST(ShareStorage, RowsAreViews) {
  const std::string text = "graph { input %x : f32[1, 4, 3] " + kBounds +
                           "constant %row = i64[] {-1} %a = Neg (%x) %b = Slice (%a, %1, %4, %1) %d, %e = Split (%a) "
                           "{axis = 1} %c = Gather (%a, %row) {axis = 1} %f = Slice (%x, %2, %4, %1) "
                           "%y = Relu (%b) %z = Relu (%c) %v = Add (%d, %e) %w = Mul (%f, %f) output %y, %z, %v, %w }";
  const auto plan = planned(text);
  EXPECT_EQ(place(*plan, "a"), "arena");
  EXPECT_EQ(place(*plan, "b"), "a+12");
  EXPECT_EQ(place(*plan, "c"), "a+36");
  EXPECT_EQ(place(*plan, "d"), "a+0");
  EXPECT_EQ(place(*plan, "e"), "a+24");
  EXPECT_EQ(place(*plan, "f"), "x+24");  // of the caller's tensor
  expect_right(text);
  EXPECT_EQ(place(*planned(text, {.alias_views = false}), "b"), "arena");
}

TEST(ShareStorage, EachUpdateOfAnOptimiserTakesThePlaceOfItsOwnOperand) {
  const std::string operands =
      "graph { input %p : f32[3] input %q : f32[5] constant %r = f32[] {0.5} constant %t = i64[] {1} %a = Neg (%p) "
      "%b = Neg (%q) %c = Mul (%p, %p) %d = Mul (%q, %q) %e = Abs (%p) %f = Abs (%q) ";
  const std::string attributes = "{alpha = 0.9, beta = 1.0, mode = \"standard\", norm_coefficient = 0.0} ";
  const std::string results = "%w = Relu (%k) %x = Relu (%l) %y = Relu (%m) %z = Relu (%n) output %w, %x, %y, %z }";
  const std::string op = "ai.onnx.preview.training::Momentum";
  const std::string text =
      operands + "%k, %l, %m, %n = " + op + " (%r, %t, %a, %b, %c, %d, %e, %f) " + attributes + results;
  const auto plan = planned(text);
  for (const auto& [output, input] : {std::pair{"k", "a+0"}, {"l", "b+0"}, {"m", "e+0"}, {"n", "f+0"}})
    EXPECT_EQ(place(*plan, output), input);
  expect_right(text);
  // An operand given twice is overwritten by neither of its updates.
  const std::string twice =
      operands + "%k, %l, %m, %n = " + op + " (%r, %t, %a, %a, %c, %c, %a, %e) " + attributes + results;
  const auto shared = planned(twice);
  for (const char* output : {"k", "l", "m"}) EXPECT_EQ(place(*shared, output), "arena") << output;
  EXPECT_EQ(place(*shared, "n"), "e+0");
  expect_right(twice);
}

TEST(ShareStorage, PartsThatBeginWithinAByteAreCopied) {
  const std::string text =
      "graph { input %x : f32[1, 3] input %z : f32[1, 3] constant %s = f32[] {0.25} constant %0 = i4[] {0} "
      "%a = QuantizeLinear (%x, %s, %0) %b = QuantizeLinear (%z, %s, %0) %c = Concat (%a, %b) {axis = 0} %y = "
      "DequantizeLinear (%c, %s, %0) output %y }";
  EXPECT_EQ(place(*planned(text), "b"), "arena");
  expect_right(text);
}

TEST(ShareStorage, OtherCropsAreCopied) {
  const std::string text = "graph { input %x : f32[2, 4, 6] " + kBounds +
                           "%a = Neg (%x) %b = Slice (%a, %1, %4, %1) %c = Slice (%a, %0, %4, %2, %2) %d, %e = Split "
                           "(%a) {axis = 2} %y = Relu (%b) %z = Relu (%c) %v = Add (%d, %e) output %y, %z, %v }";
  const auto plan = planned(text);
  for (const char* name : {"b", "c", "d", "e"}) EXPECT_EQ(place(*plan, name), "arena") << name;
  expect_right(text);
}

TEST(ShareStorage, ASmallPartKeepsNoLargeValueAlive) {
  const std::string start =
      "graph { input %x : f32[64, 8] " + kBounds + "%a = Neg (%x) %b = Slice (%a, %0, %1, %0) %m = Relu (%a) ";
  EXPECT_EQ(place(*planned(start + "%n = Floor (%m) %k = Neg (%n) %y = Add (%k, %b) output %y }"), "b"), "arena");
  EXPECT_EQ(place(*planned(start + "%c = Relu (%b) %y = Add (%m, %c) %z = Add (%a, %y) output %y, %z }"), "b"), "a+0");
  expect_right(start + "%n = Floor (%m) %k = Neg (%n) %y = Add (%k, %b) output %y }");
}

TEST(ShareStorage, PartsAreWrittenWhereTheyAreJoined) {
  const std::string text =
      "graph { input %x : f32[1, 3, 5] input %z : f32[1, 2, 5] %a = Neg (%x) %b = Floor (%z) %c = Concat (%a, %b) "
      "{axis = 1} %d = Abs (%c) %e = Concat (%d, %d) {axis = 0} %y = Relu (%e) output %y }";
  const auto plan = planned(text);
  EXPECT_EQ(place(*plan, "a"), "c+0");
  EXPECT_EQ(place(*plan, "b"), "c+60");
  EXPECT_EQ(place(*plan, "e"), "arena");  // the same twice lies in one place only
  expect_right(text);
}

TEST(ShareStorage, JoinsOfJoinsAndViews) {
  const std::string text =
      "graph { input %x : f32[2, 6] constant %s = i64[2] {3, 4} %a = Neg (%x) %r = Reshape (%a, %s) %b = Floor (%r) %c "
      "= Abs (%r) %d = Concat (%b, %c) {axis = 0} "
      "input %z : f32[1, 4] %e = Ceil (%z) %f = Concat (%e, %d) {axis = 0} %g = Relu (%c) %y = Neg (%f) output %y, %g "
      "}";
  const auto plan = planned(text);
  EXPECT_EQ(place(*plan, "e"), "f+0");
  EXPECT_EQ(place(*plan, "d"), "f+16");
  EXPECT_EQ(place(*plan, "b"), "f+16");
  EXPECT_EQ(place(*plan, "c"), "f+64");
  expect_right(text);
}

TEST(ShareStorage, WhatIsWrittenOverLaterIsCopied) {
  // %y over %a behind the join; then %d over %c while %b is read again.
  const std::string parts =
      "graph { input %x : f32[3, 5] input %z : f32[2, 5] %a = Neg (%x) %b = Floor (%z) %c = Concat (%a, %b) {axis = "
      "0} ";
  const std::string over_a_part = parts + "%n = Relu (%a) %m = Abs (%n) %k = Neg (%c) output %m, %k }",
                    over_the_join = parts + "%d = Neg (%c) %e = Abs (%d) %f = Relu (%b) %g = Abs (%f) output %e, %g }";
  EXPECT_EQ(place(*planned(over_a_part), "a"), "arena");
  EXPECT_EQ(place(*planned(over_the_join), "a"), "arena");
  expect_right(over_a_part);
  expect_right(over_the_join);
}

TEST(ShareStorage, JoinsThatWouldTakeMoreMemoryAreCopied) {
  // %a waits for long: the place of %b beside it would be kept while the large values pass.
  const std::string text =
      "graph { input %x : f32[1, 64] constant %s = i64[2] {64, 64} %a = Neg (%x) %l = Expand (%x, %s) %m = Floor (%l) "
      "%n = Ceil (%m) constant %axes = i64[1] {0} %b = ReduceMax (%n, %axes) "
      "%c = Concat (%a, %b) {axis = 0} %y = Abs (%c) output %y }";
  const auto plan = planned(text);
  EXPECT_EQ(place(*plan, "c"), "arena");
  EXPECT_LE(plan->arena_bytes, planned(text, {.alias_views = false})->arena_bytes);
  expect_right(text);
}

}  // namespace
}  // namespace tessera::plan::share_storage_test
