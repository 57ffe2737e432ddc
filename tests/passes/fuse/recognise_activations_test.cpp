// Activations in the spellings of exporters, and what only resembles them.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::recognise_activations_test {
namespace {

const std::string kStart =
    "graph { input %x : f32[batch, 3] constant %one = f32[] {1} constant %half = f32[] {0.5} constant %root = f32[] "
    "{1.4142135} constant %inverse = f32[] {0.70710677} "
    "constant %zero = f32[] {0} constant %three = f32[] {3} constant %six = f32[] {6} constant %sixth = f32[] "
    "{0.16666667} constant %two = f32[] {2} "
    "constant %cubic = f32[] {0.044715} constant %slope = f32[] {0.7978845608} constant %quick = f32[] {1.702} ";

void expect_recognised(const std::string& text, const std::string& node) {
  test::expect_rewritten(kStart + text + "output %y }", "recognise_activations", {"%y = " + node}, 30);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(kStart + text + "output %y }", "recognise_activations");
}

TEST(RecogniseActivations, Swish) {
  expect_recognised("%s = Sigmoid (%x) %y = Mul (%x, %s) ", "Swish (%x)");
  expect_recognised("%q = Mul (%quick, %x) %s = Sigmoid (%q) %y = Mul (%s, %x) ", "Swish (%x) {alpha = 1.702}");
  expect_unchanged("%t = Neg (%x) %s = Sigmoid (%t) %y = Mul (%x, %s) ");
  expect_unchanged("%s = Sigmoid (%x) %m = Mul (%half, %s) %y = Mul (%x, %m) ");
}

// Whose constants are rounded as well.
TEST(RecogniseActivations, OfHalves) {
  for (const std::string type : {"f16", "bf16"}) {
    const auto expect = [&](const std::string& text, const std::string& node) {
      std::string graph = kStart + text + "%z = Cast (%y) {to = 1} output %z }";
      for (std::size_t at = graph.find("f32["); at != std::string::npos; at = graph.find("f32[", at + 1))
        graph.replace(at, 3, type);
      test::expect_rewritten(graph, "recognise_activations", {"%y = " + node, "%z = Cast (%y) {to = 1}"}, 30 << 13);
    };
    expect("%s = Sigmoid (%x) %y = Mul (%x, %s) ", "Swish (%x)");
    expect("%d = Div (%x, %root) %e = Erf (%d) %a = Add (%e, %one) %m = Mul (%x, %a) %y = Mul (%m, %half) ",
           "Gelu (%x)");
    expect("%a = Add (%x, %three) %c = Clip (%a, %zero, %six) %m = Mul (%x, %c) %y = Div (%m, %six) ",
           "HardSwish (%x)");
  }
}

TEST(RecogniseActivations, HardSwishAndHardSigmoid) {
  const std::string clip = "%a = Add (%x, %three) %c = Clip (%a, %zero, %six) ";
  expect_recognised("%s = HardSigmoid (%x) {alpha = 0.16666667, beta = 0.5} %y = Mul (%s, %x) ", "HardSwish (%x)");
  expect_recognised(clip + "%m = Mul (%x, %c) %y = Div (%m, %six) ", "HardSwish (%x)");
  expect_recognised(clip + "%m = Mul (%x, %c) %y = Mul (%sixth, %m) ", "HardSwish (%x)");
  expect_recognised(clip + "%d = Div (%c, %six) %y = Mul (%d, %x) ", "HardSwish (%x)");
  expect_recognised(clip + "%y = Mul (%c, %sixth) ", "HardSigmoid (%x) {alpha = 0.16666667, beta = 0.5}");
  expect_unchanged("%s = HardSigmoid (%x) %y = Mul (%s, %x) ");
  expect_unchanged("%a = Add (%x, %three) %c = Clip (%a, %zero, %three) %m = Mul (%x, %c) %y = Div (%m, %six) ");
  expect_unchanged("input %z : f32[batch, 3] " + clip + "%m = Mul (%z, %c) %y = Div (%m, %six) ");
}

TEST(RecogniseActivations, NotOfIntegersNorOfDoubles) {
  for (const char* type : {"i64", "f64"}) {
    const auto number = [&](const char* name, const char* value) {
      return std::string("constant %") + name + " = " + type + "[] {" + value + "} ";
    };
    const std::string graph = std::string("graph { input %x : ") + type + "[3] " + number("three", "3") +
                              number("six", "6") + number("zero", "0") +
                              "%a = Add (%x, %three) %c = Clip (%a, %zero, %six) ";
    test::expect_left_alone(graph + "%y = Div (%c, %six) output %y }", "recognise_activations");
    test::expect_left_alone(graph + "%m = Mul (%x, %c) %y = Div (%m, %six) output %y }", "recognise_activations");
  }
}

TEST(RecogniseActivations, Mish) {
  expect_recognised("%p = Softplus (%x) %t = Tanh (%p) %y = Mul (%x, %t) ", "Mish (%x)");
  expect_unchanged("%p = Sigmoid (%x) %t = Tanh (%p) %y = Mul (%x, %t) ");
}

TEST(RecogniseActivations, GeluByTheErrorFunction) {
  expect_recognised("%d = Div (%x, %root) %e = Erf (%d) %a = Add (%e, %one) %m = Mul (%x, %a) %y = Mul (%m, %half) ",
                    "Gelu (%x)");
  expect_recognised("%d = Mul (%x, %inverse) %e = Erf (%d) %a = Add (%one, %e) %m = Mul (%x, %half) %y = Mul (%m, %a) ",
                    "Gelu (%x)");
  expect_recognised("%d = Div (%x, %root) %e = Erf (%d) %a = Add (%e, %one) %m = Mul (%a, %half) %y = Mul (%x, %m) ",
                    "Gelu (%x)");
  expect_unchanged("%d = Div (%x, %two) %e = Erf (%d) %a = Add (%e, %one) %m = Mul (%a, %half) %y = Mul (%x, %m) ");
  expect_unchanged("%d = Div (%x, %root) %e = Erf (%d) %a = Add (%e, %one) %y = Mul (%x, %a) ");
}

TEST(RecogniseActivations, GeluByTheHyperbolicTangent) {
  const std::string gate = "%t = Tanh (%v) %a = Add (%t, %one) %m = Mul (%half, %a) %y = Mul (%x, %m) ",
                    gelu = "Gelu (%x) {approximate = \"tanh\"}";
  expect_recognised("%c = Pow (%x, %three) %d = Mul (%cubic, %c) %u = Add (%x, %d) %v = Mul (%u, %slope) " + gate,
                    gelu);
  expect_recognised(
      "%b = Mul (%cubic, %x) %c = Mul (%x, %b) %d = Mul (%x, %c) %u = Add (%x, %d) %v = Mul (%slope, %u) " + gate,
      gelu);
  expect_recognised(
      "%b = Mul (%x, %x) %c = Mul (%b, %cubic) %d = Add (%one, %c) %s = Mul (%slope, %x) %v = Mul (%s, %d) " + gate,
      gelu);
  expect_unchanged("%c = Pow (%x, %three) %d = Mul (%half, %c) %u = Add (%x, %d) %v = Mul (%u, %slope) " + gate);
  expect_unchanged("%c = Pow (%x, %two) %d = Mul (%cubic, %c) %u = Add (%x, %d) %v = Mul (%u, %slope) " + gate);
}

TEST(RecogniseActivations, LeavesOtherUses) {
  test::expect_left_alone(kStart + "%s = Sigmoid (%x) %y = Mul (%x, %s) output %y, %s }", "recognise_activations");
  test::expect_left_alone(kStart +
                              "%d = Div (%x, %root) %e = Erf (%d) %a = Add (%e, %one) %m = Mul (%a, %half) %y = Mul "
                              "(%x, %m) %z = Neg (%e) output %y, %z }",
                          "recognise_activations");
}

}  // namespace
}  // namespace tessera::passes::recognise_activations_test
