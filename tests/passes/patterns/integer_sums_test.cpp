// Layers of data that is quantised at run time, as onnxruntime's quantize_dynamic writes them: what lower_quantised
// makes of ConvInteger, and that outputs stay the same.
#include "passes/patterns/integer_sums.h"

#include <gtest/gtest.h>

#include "runtime/session/random_inputs.h"
#include "support/pass_context.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::passes::integer_sums_test {
namespace {

using test::cpu_pass_context;
using test::ops_of;
using test::parsed;
using Ops = std::vector<std::string>;

// Elements low, low + step, … in some order.
std::string numbers(const std::string& name, const std::string& type, const Shape& shape, int low, int step) {
  std::string elements;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    elements += (i == 0 ? "" : ", ") + std::to_string(low + static_cast<int>(i * 7 % 13) * step);
  return " constant %" + name + " = " + type + to_string(shape) + " {" + elements + "}";
}

const std::string kStart = "graph { input %x : f32[batch, 4, 6, 6]" + numbers("w", "u8", {9, 4, 3, 3}, 3, 21) +
                           numbers("i", "i8", {9, 4, 3, 3}, -126, 21) + numbers("v", "u8", {9, 9, 1, 1}, 3, 21) +
                           numbers("d", "u8", {4, 1, 3, 3}, 3, 21) +
                           " constant %wz = u8[] {121} constant %half = u8[] {128} constant %ws = f32[] {0.01}" +
                           numbers("b", "f32", {1, 9, 1, 1}, -6, 1) + numbers("bv", "f32", {9}, -6, 1) +
                           " constant %column = i64[4] {1, 9, 1, 1}" + " %q, %s, %z = DynamicQuantizeLinear (%x)";
const std::string kSums = " %y = ConvInteger (%q, %w, %z, %wz) {pads = [1, 1, 1, 1]}";
const std::string kReal = " %c = Cast (%y) {to = 1} %u = Mul (%s, %ws)";
const Ops kLayer{"DynamicQuantizeLinear", "Transpose", "tessera::QuantisedConv", "Transpose"};

Ops lowered(const std::string& text) {
  return ops_of(lower_quantised(parsed(text), cpu_pass_context()));
}

// With the pass on the CPU, and without it on the reference device.
void expect_same_outputs(const std::string& text, double tolerance = 2e-5) {
  SCOPED_TRACE(text);
  const Model model(std::make_shared<const ir::Graph>(parsed(text)));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions plain;
  plain.device = "reference";
  plain.without_passes = {"lower_quantised"};
  const NamedValues expected = Session(model, plain).run(inputs), got = Session(model).run(inputs);
  for (const auto& [name, value] : expected) {
    const test::Tolerance close{.relative = tolerance, .absolute = tolerance};
    EXPECT_TRUE(test::close_to(got.at(name).tensor(), value.tensor(),
                               value.tensor().dtype() == DType::f32 ? close : test::Tolerance{}))
        << name;
  }
}

void expect_lowered(const std::string& text, const Ops& ops) {
  EXPECT_EQ(lowered(text), ops) << text;
  expect_same_outputs(text);
}

TEST(IntegerSums, ALayerTakesScalesAndBias) {
  expect_lowered(kStart + kSums + kReal + " %p = Mul (%c, %u) %o = Add (%p, %b) output %o }", kLayer);
  expect_lowered(kStart + kSums + kReal + " %p = Mul (%u, %c) %o = Add (%b, %p) output %o }", kLayer);
  expect_lowered(kStart + kSums + " %c = Cast (%y) {to = 1} %u = Mul (%ws, %s) %o = Mul (%c, %u) output %o }", kLayer);
  expect_lowered(kStart + kSums + " %c = Cast (%y) {to = 1} %p = Mul (%c, %s) %o = Mul (%ws, %p) output %o }", kLayer);
  expect_lowered(kStart + kSums + " %c = Cast (%y) {to = 1} %p = Mul (%c, %ws) %o = Mul (%p, %s) output %o }", kLayer);
  expect_lowered(kStart + kSums + " %c = Cast (%y) {to = 1} %o = Mul (%c, %s) output %o }", kLayer);
  expect_lowered(kStart + kSums + " %o = Cast (%y) {to = 1} output %o }", kLayer);
  // The scale is used elsewhere, too.
  EXPECT_EQ(lowered(kStart + kSums + kReal + " %o = Mul (%c, %u) output %o, %u }").size(), kLayer.size() + 1);
}

TEST(IntegerSums, ScalesAndZeroPointsOfEachChannel) {
  const std::string scales =
      " constant %cs = f32[9, 1, 1] {0.01, 0.02, 0.01, 0.03, 0.02, 0.01, 0.02, 0.03, 0.01} %c = Cast (%y) {to = 1} "
      "%u = Mul (%s, %cs) %p = Mul (%c, %u) %o = Add (%p, %b) output %o }";
  expect_lowered(kStart + kSums + scales, kLayer);
  const std::string zeros = numbers("cz", "u8", {9}, 100, 3);
  expect_lowered(kStart + zeros + " %y = ConvInteger (%q, %w, %z, %cz)" + scales, kLayer);
  expect_lowered(kStart + zeros + " %y = ConvInteger (%q, %w, %z, %cz)" + kReal + " %o = Mul (%c, %u) output %o }",
                 kLayer);
  for (const std::string weights : {"%w, %z, %half", "%w, %z", "%w", "%i, %z", "%i"})
    expect_lowered(kStart + " %y = ConvInteger (%q, " + weights + ")" + scales, kLayer);
}

// As earlier versions of onnxruntime wrote it: the bias is made an integer in each run.
TEST(IntegerSums, ABiasThatIsQuantisedAtRunTime) {
  const std::string text =
      kStart + kSums +
      " %u = Mul (%s, %ws) %t = Div (%bv, %u) %f = Floor (%t) %n = Cast (%f) {to = 6} %r = Reshape (%n, %column) %a = "
      "Add (%y, %r) %c = Cast (%a) {to = 1}";
  const Ops bias{
      "DynamicQuantizeLinear",  "Mul",      "Div", "Floor", "Cast", "Reshape", "Cast", "Mul", "Reshape", "Transpose",
      "tessera::QuantisedConv", "Transpose"};
  for (const char* const product : {" %o = Mul (%c, %u) output %o }", " %o = Mul (%u, %c) output %o }"}) {
    Ops got = lowered(text + product), want = bias;
    std::ranges::sort(got);
    std::ranges::sort(want);
    EXPECT_EQ(got, want);
    expect_same_outputs(text + product);
  }
  expect_same_outputs(text + " %p = Mul (%c, %u) %o = Add (%p, %b) output %o }");
  expect_same_outputs(text + " output %c }", 0);
}

TEST(IntegerSums, WhatIsNoPartOfTheLayerStaysBehindIt) {
  const auto with = [](std::initializer_list<const char*> more) {
    Ops ops = kLayer;
    ops.insert(ops.end(), more.begin(), more.end());
    return ops;
  };
  // Scales along another axis, a bias along another axis, a bias that is no constant, a product of the sums themselves.
  expect_lowered(
      kStart + kSums +
          " constant %row = f32[6] {1, 2, 3, 4, 5, 6} %c = Cast (%y) {to = 1} %o = Mul (%c, %row) output %o }",
      with({"Mul"}));
  expect_lowered(kStart + kSums + kReal +
                     " constant %row = f32[6] {1, 2, 3, 4, 5, 6} %p = Mul (%c, %u) %o = Add (%p, %row) output %o }",
                 with({"Add"}));
  expect_lowered(
      kStart + kSums + " input %g : f32[1, 9, 1, 1]" + kReal + " %p = Mul (%c, %u) %o = Add (%p, %g) output %o }",
      with({"Add"}));
  expect_lowered(kStart + kSums + " %c = Cast (%y) {to = 1} %o = Mul (%c, %c) output %o }", with({"Mul"}));
  expect_lowered(kStart + kSums + kReal + " %o = Mul (%c, %u) output %o, %c }",
                 {"DynamicQuantizeLinear", "Mul", "Transpose", "tessera::QuantisedConv", "Transpose", "Mul"});
}

TEST(IntegerSums, IntegersStayIntegers) {
  const Ops plain{"DynamicQuantizeLinear", "ConvInteger"};
  expect_lowered(kStart + kSums + " output %y }", plain);
  expect_lowered(kStart + kSums + " %o = Cast (%y) {to = 7} output %o }", {plain[0], plain[1], "Cast"});
  expect_lowered(kStart + kSums + " %o = Cast (%y) {to = 1} output %o, %y }", {plain[0], plain[1], "Cast"});
  expect_lowered(
      kStart + " input %k : u8[9, 4, 3, 3] %y = ConvInteger (%q, %k, %z) %o = Cast (%y) {to = 1} output %o }",
      {plain[0], plain[1], "Cast"});
  expect_lowered(kStart + " input %kz : u8[] %y = ConvInteger (%q, %w, %z, %kz) %o = Cast (%y) {to = 1} output %o }",
                 {plain[0], plain[1], "Cast"});
}

// Normalisations that were left behind layers when these were quantised.
TEST(IntegerSums, WhatMapsChannelsBehindALayerIsPartOfIt) {
  const std::string normalised =
      numbers("n", "f32", {9}, 1, 1) + " %h = BatchNormalization (%p, %n, %bv, %bv, %n) output %h }";
  expect_lowered(kStart + kSums + kReal + " %p = Mul (%c, %u)" + normalised, kLayer);
  expect_lowered(kStart + kSums + kReal + " %o = Mul (%c, %u) %p = Add (%o, %b)" + normalised, kLayer);
  expect_lowered(
      kStart + kSums + kReal + " %p = Mul (%c, %u) %o = Add (%p, %b) %m = Div (%o, %ws) %h = Sub (%b, %m) output %h }",
      kLayer);
  // Of numbers that f32 does not have.
  const std::string huge = " constant %huge = f32[] {3e38}";
  EXPECT_EQ(lowered(kStart + kSums + kReal + huge +
                    " %p = Mul (%c, %u) %o = Mul (%p, %huge) %h = Mul (%o, %huge) output %h }")
                .back(),
            "Mul");
}

TEST(IntegerSums, DepthwiseLayersAreConvolutionsOfRealNumbers) {
  const std::string text = kStart + numbers("dz", "u8", {4}, 100, 3) + numbers("db", "f32", {1, 4, 1, 1}, -6, 1) +
                           " constant %dt = f32[4, 1, 1] {0.01, 0.02, 0.03, 0.01}",
                    attributes = " {group = 4, pads = [1, 1, 1, 1]} %c = Cast (%y) {to = 1}";
  const Ops real{"DynamicQuantizeLinear", "DequantizeLinear", "Conv"};
  expect_lowered(text + " %y = ConvInteger (%q, %d, %z, %wz)" + attributes +
                     " %u = Mul (%s, %ws) %p = Mul (%c, %u) %o = Add (%p, %db) output %o }",
                 real);
  expect_lowered(
      text + " %y = ConvInteger (%q, %d, %z, %dz)" + attributes + " %u = Mul (%s, %dt) %o = Mul (%c, %u) output %o }",
      real);
  // Sums of few products are exact.
  const std::string exact = text + " %y = ConvInteger (%q, %d)" + attributes + " output %c }";
  EXPECT_EQ(lowered(exact), real);
  expect_same_outputs(exact, 0);
}

TEST(IntegerSums, BytesBetweenLayersKeepTheirChannelsLast) {
  const std::string text = kStart + kSums + kReal +
                           " %p = Mul (%c, %u) %o = Add (%p, %b) %g = Sigmoid (%o) %h = Mul (%o, %g) %hq, %hs, %hz = "
                           "DynamicQuantizeLinear (%h) %y2 = ConvInteger (%hq, %v, %hz, %half) %c2 = Cast (%y2) {to = "
                           "1} %u2 = Mul (%hs, %ws) %p2 = Mul (%c2, %u2) %o2 = Add (%o, %p2) output %o2 }";
  ir::Graph graph = channels_last(lower_quantised(parsed(text), cpu_pass_context()), cpu_pass_context());
  EXPECT_EQ(ops_of(graph), (Ops{"DynamicQuantizeLinear", "Transpose", "tessera::QuantisedConv", "Sigmoid", "Mul",
                                "DynamicQuantizeLinear", "tessera::QuantisedConv", "Add", "Transpose"}));
  expect_same_outputs(text, 0.3);  // a step of the bytes between
}

}  // namespace
}  // namespace tessera::passes::integer_sums_test
