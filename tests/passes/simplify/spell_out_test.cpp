#include <gtest/gtest.h>

#include <limits>

#include "runtime/session/random_inputs.h"
#include "support/pass_context.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::passes::spell_out_test {
namespace {

Tensor run_on(const std::string& device, const Model& model, const NamedValues& inputs, int threads = 1) {
  SessionOptions options;
  options.device = device;
  options.threads = threads;
  return Session(model, options).run(inputs).at("y").tensor();
}

// Nothing is left of the operator, and the CPU computes what the reference does.
void expect_spelt_out(const std::string& text, const std::string& op, const NamedValues* given = nullptr) {
  SCOPED_TRACE(text);
  for (const std::string& left : test::ops_of(spell_out(test::parsed(text), test::cpu_pass_context())))
    EXPECT_NE(left, op);
  const Model model(std::make_shared<const ir::Graph>(test::parsed(text)));
  const NamedValues inputs = given != nullptr ? *given : runtime::random_inputs(model, 1);
  const Tensor want = run_on("reference", model, inputs);
  for (const int threads : {1, 2}) {
    EXPECT_TRUE(
        test::close_to(run_on("cpu", model, inputs, threads), want, test::Tolerance::epsilons(want.dtype(), 100)));
  }
}

TEST(SpellOut, Mean) {
  test::expect_rewritten("graph { input %a : f32[3, 5] input %b : f32[5] %y = Mean (%a, %b) output %y }", "spell_out",
                         {"%? = Add (%a, %b)", "%? = Div (%?, %?)", "%y = Identity (%?)"});
  expect_spelt_out(
      "graph { input %a : f32[3, 5] input %b : f32[1] input %c : f32[3, 1] %y = Mean (%a, %b, %c) output %y }", "Mean");
  expect_spelt_out("graph { input %a : f64[n, 5] %y = Mean (%a) output %y }", "Mean");
}

TEST(SpellOut, ReduceLogSumExp) {
  for (const std::string type : {"f32", "f64"}) {
    for (const std::string keepdims : {"0", "1"}) {
      const std::string head = "graph { input %a : " + type + "[3, 70, 5] ",
                        tail = " {keepdims = " + keepdims + "} output %y }";
      expect_spelt_out(head + "%y = ReduceLogSumExp (%a)" + tail, "ReduceLogSumExp");
      for (const std::string axes : {"[1] {1}", "[1] {-1}", "[2] {0, 2}"}) {
        expect_spelt_out(head + "constant %axes = i64" + axes + " %y = ReduceLogSumExp (%a, %axes)" + tail,
                         "ReduceLogSumExp");
      }
    }
  }
}

TEST(SpellOut, ReduceLogSumExpOfInfinitiesAndNan) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const NamedValues inputs = {
      {"a", Tensor::from<float>({5, 2}, {infinity, 1, -infinity, -infinity, 2, -infinity, nan, infinity, 1000, 1000})}};
  expect_spelt_out(
      "graph { input %a : f32[5, 2] constant %axes = i64[1] {1} %y = ReduceLogSumExp (%a, %axes) output %y }",
      "ReduceLogSumExp", &inputs);
}

TEST(SpellOut, Normalisations) {
  for (const std::string p : {"1", "2"}) {
    const std::string tail = "%y = LpNormalization (%a) {axis = 1, p = " + p + "} output %y }";
    expect_spelt_out("graph { input %a : f32[3, 70, 5] " + tail, "LpNormalization");
    const NamedValues zeros = {{"a", Tensor::from<float>({2, 2}, {0, 0, 3, -4})}};
    expect_spelt_out("graph { input %a : f32[2, 2] " + tail, "LpNormalization", &zeros);
  }
  expect_spelt_out("graph { input %a : f32[2, 3, 7, 5] %y = MeanVarianceNormalization (%a) output %y }",
                   "MeanVarianceNormalization");
  expect_spelt_out("graph { input %a : f32[2, 3, 7] %y = MeanVarianceNormalization (%a) {axes = [-1]} output %y }",
                   "MeanVarianceNormalization");
}

TEST(SpellOut, LocalResponses) {
  for (const std::string size : {"1", "4", "5", "9"}) {
    expect_spelt_out("graph { input %a : f32[2, 7, 5, 3] %y = LRN (%a) {size = " + size +
                         ", alpha = 0.5, beta = 0.7, bias = 2.0} output %y }",
                     "LRN");
  }
  expect_spelt_out("graph { input %a : f32[n, 7, h] %y = LRN (%a) {size = 3} output %y }", "LRN");
}

TEST(SpellOut, LeavesIntegers) {
  test::expect_left_alone("graph { input %a : i32[3, 5] %y = ReduceLogSumExp (%a) output %y }", "spell_out");
}

}  // namespace
}  // namespace tessera::passes::spell_out_test
