// Layers between DequantizeLinear and QuantizeLinear: what the passes make of graphs, and that outputs stay the same.
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/session/random_inputs.h"
#include "support/pass_context.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::passes::lower_quantised_test {
namespace {

using test::cpu_pass_context;
using test::ops_of;
using test::parsed;
using Ops = std::vector<std::string>;

std::string numbers(const std::string& name, const std::string& type, const Shape& shape, int low, int step) {
  std::string elements;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    elements += (i == 0 ? "" : ", ") + std::to_string(low + static_cast<int>(i * 7 % 13) * step);
  return " constant %" + name + " = " + type + to_string(shape) + " {" + elements + "}";
}

const std::string kScales =
    " constant %s = f32[] {0.03} constant %z = u8[] {120} constant %t = f32[] {0.05} constant %u = u8[] {0} constant "
    "%si = f32[] {0.04} constant %zi = i8[] {-7}";
const std::string kStart =
    "graph { input %x : f32[batch, 4, 6, 6]" + kScales + numbers("w", "i8", {5, 4, 3, 3}, -60, 10) +
    " constant %ws = f32[5] {0.01, 0.02, 0.01, 0.03, 0.02}" + " constant %b = f32[5] {0.1, 0.2, -0.3, 0.4, 0.5}" +
    numbers("v", "i8", {5, 5, 1, 1}, -60, 10) +
    " %q = QuantizeLinear (%x, %s, %z) %d = DequantizeLinear (%q, %s, %z) %wd = DequantizeLinear (%w, %ws) {axis = 0} "
    "%vd = DequantizeLinear (%v, %s)";
const std::string kConv = " %y = Conv (%d, %wd, %b) {pads = [1, 1, 1, 1]}";

// With the pass and without it: bytes within a step, floats within the step of what they are made of.
void expect_same_outputs(const std::string& text) {
  const Model model(std::make_shared<const ir::Graph>(parsed(text)));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions plain;
  plain.device = "reference";
  plain.without_passes = {"lower_quantised"};
  const NamedValues expected = Session(model, plain).run(inputs), got = Session(model).run(inputs);
  for (const auto& [name, value] : expected)
    EXPECT_TRUE(test::close_to(got.at(name).tensor(), value.tensor(), {.relative = 0, .absolute = 0.0501})) << name;
}

Ops lowered(const std::string& text) {
  return ops_of(lower_quantised(parsed(text), cpu_pass_context()));
}

TEST(LowerQuantised, AConvolutionAndItsActivationComputeInIntegers) {
  const std::string text =
      kStart + kConv +
      " %r = Relu (%y) %yq = QuantizeLinear (%r, %t, %z) %o = DequantizeLinear (%yq, %t, %z) output %o }";
  EXPECT_EQ(lowered(text),
            (Ops{"QuantizeLinear", "Transpose", "tessera::QuantisedConv Relu", "Transpose", "DequantizeLinear"}));
  expect_same_outputs(text);
}

TEST(LowerQuantised, AResultThatIsNotQuantisedStaysReal) {
  const std::string text = kStart + kConv + " output %y }";
  EXPECT_EQ(lowered(text), (Ops{"QuantizeLinear", "Transpose", "tessera::QuantisedConv", "Transpose"}));
  expect_same_outputs(text);
}

TEST(LowerQuantised, SignedActivationsBecomeUnsigned) {
  const std::string text = kStart +
                           " %i = QuantizeLinear (%x, %si, %zi) %e = DequantizeLinear (%i, %si, %zi) %y = Conv (%e, "
                           "%wd, %b) %yq = QuantizeLinear (%y, %si, %zi)" +
                           " %o = DequantizeLinear (%yq, %si, %zi) output %o }";
  EXPECT_EQ(lowered(text),
            (Ops{"QuantizeLinear", "Transpose", "tessera::QuantisedConv", "Transpose", "DequantizeLinear"}));
  expect_same_outputs(text);
}

TEST(LowerQuantised, ABlockStaysBytesWithTheChannelsLast) {
  const std::string text = kStart + kConv +
                           " %yq = QuantizeLinear (%y, %t, %u) %yd = DequantizeLinear (%yq, %t, %u) %p = Conv (%yd, "
                           "%vd) %pq = QuantizeLinear (%p, %s, %z)" +
                           " %pd = DequantizeLinear (%pq, %s, %z) %a = Add (%yd, %pd) %r = Relu (%a) %aq = "
                           "QuantizeLinear (%r, %t, %u) %ad = DequantizeLinear (%aq, %t, %u)" +
                           " %m = MaxPool (%ad) {kernel_shape = [2, 2], storage_order = 0} %mq = QuantizeLinear (%m, "
                           "%t, %u) %md = DequantizeLinear (%mq, %t, %u)" +
                           " %g = GlobalAveragePool (%md) output %g }";
  const ir::Graph last = channels_last(lower_quantised(parsed(text), cpu_pass_context()), cpu_pass_context());
  EXPECT_EQ(ops_of(last), (Ops{"QuantizeLinear", "Transpose", "tessera::QuantisedConv", "tessera::QuantisedConv",
                               "com.microsoft::QLinearAdd", "tessera::ChannelsLastMaxPool", "DequantizeLinear",
                               "ReduceMean", "Reshape"}));
  // Whether a kernel takes the sum depends on sizes.
  EXPECT_EQ(ops_of(fuse_epilogues(last, cpu_pass_context())), ops_of(last));
  std::string sized = text;
  sized.replace(sized.find("batch"), 5, "2");
  const ir::Graph fused = fuse_epilogues(
      channels_last(lower_quantised(parsed(sized), cpu_pass_context()), cpu_pass_context()), cpu_pass_context());
  EXPECT_EQ(ops_of(fused), (Ops{"QuantizeLinear", "Transpose", "tessera::QuantisedConv", "tessera::QuantisedConv",
                                "tessera::ChannelsLastMaxPool", "DequantizeLinear", "ReduceMean", "Reshape"}));
  expect_same_outputs(text);
}

TEST(LowerQuantised, ProductsTakeTheirBias) {
  const std::string start = "graph { input %x : f32[batch, 3, 8]" + kScales + numbers("w", "i8", {8, 5}, -60, 10) +
                            numbers("g", "i8", {5, 8}, -60, 10) +
                            " constant %ws = f32[5] {0.01, 0.02, 0.01, 0.03, 0.02} constant %b = f32[5] {0.1, 0.2, "
                            "-0.3, 0.4, 0.5} constant %flat = i64[2] {-1, 8}" +
                            " %q = QuantizeLinear (%x, %s, %z) %d = DequantizeLinear (%q, %s, %z) %wd = "
                            "DequantizeLinear (%w, %ws) {axis = 1} %gd = DequantizeLinear (%g, %ws) {axis = 0}";
  const std::string product = start + " %y = MatMul (%d, %wd) %p = Add (%b, %y) %g1 = Gelu (%p) output %g1 }";
  EXPECT_EQ(lowered(product), (Ops{"QuantizeLinear", "tessera::QuantisedLinear", "Gelu"}));
  EXPECT_EQ(ops_of(fuse_epilogues(lower_quantised(parsed(product), cpu_pass_context()), cpu_pass_context())),
            (Ops{"QuantizeLinear", "tessera::QuantisedLinear Gelu"}));
  expect_same_outputs(product);
  const std::string gemm = start +
                           " %f = Reshape (%d, %flat) %fq = QuantizeLinear (%f, %s, %z) %fd = DequantizeLinear (%fq, "
                           "%s, %z) %y = Gemm (%fd, %gd, %b) {transB = 1} output %y }";
  EXPECT_EQ(lowered(gemm), (Ops{"QuantizeLinear", "Reshape", "tessera::QuantisedLinear"}));
  expect_same_outputs(gemm);
}

TEST(LowerQuantised, WhatDoesNotFitRunsAsWritten) {
  // Weights around another zero point, scales along the wrong axis, an axis of scales for the data.
  const std::string odd =
      kStart + " constant %one = i8[] {1} %od = DequantizeLinear (%w, %s, %one) %y = Conv (%d, %od) output %y }";
  EXPECT_EQ(lowered(odd), (Ops{"QuantizeLinear", "DequantizeLinear", "Conv"}));
  expect_same_outputs(odd);
  const std::string along = kStart +
                            " constant %four = f32[4] {0.1, 0.2, 0.1, 0.2} %od = DequantizeLinear (%w, %four) {axis = "
                            "1} %y = Conv (%d, %od) output %y }";
  EXPECT_EQ(lowered(along), (Ops{"QuantizeLinear", "DequantizeLinear", "Conv"}));
  expect_same_outputs(along);
  const std::string half = kStart +
                           " %hs = Cast (%s) {to = 10} %h = DequantizeLinear (%q, %hs, %z) %hw = DequantizeLinear (%w, "
                           "%hs) %y = Conv (%h, %hw) output %y }";
  EXPECT_EQ(ops_of(lower_quantised(fold_constants(test::parsed(half), cpu_pass_context()), cpu_pass_context())),
            (Ops{"QuantizeLinear", "DequantizeLinear", "Conv"}));
  const std::string kept =
      kStart + kConv + " %yq = QuantizeLinear (%y, %t, %u) %yd = DequantizeLinear (%yq, %t, %u) output %yd, %y }";
  EXPECT_EQ(lowered(kept), (Ops{"QuantizeLinear", "Transpose", "tessera::QuantisedConv", "Transpose", "QuantizeLinear",
                                "DequantizeLinear"}));
  expect_same_outputs(kept);
}

TEST(LowerQuantised, MovingToAnotherScaleIsNoMove) {
  const std::string text = kStart +
                           " %m = MaxPool (%d) {kernel_shape = [2, 2]} %mq = QuantizeLinear (%m, %t, %u) %md = "
                           "DequantizeLinear (%mq, %t, %u) output %md }";
  EXPECT_EQ(lowered(text),
            (Ops{"QuantizeLinear", "DequantizeLinear", "MaxPool", "QuantizeLinear", "DequantizeLinear"}));
  expect_same_outputs(text);
}

TEST(LowerQuantised, TheStandardOperatorOnBytes) {
  const std::string text = "graph { input %x : u8[batch, 4, 6, 6]" + kScales +
                           numbers("w", "i8", {5, 4, 3, 3}, -60, 10) + numbers("wu", "u8", {5, 4, 3, 3}, 68, 10) +
                           numbers("b", "i32", {5}, -600, 100) +
                           " constant %ws = f32[5] {0.01, 0.02, 0.01, 0.03, 0.02} constant %wz = i8[5] {0, 0, 0, 0, 0} "
                           "constant %half = u8[] {128} constant %odd = u8[] {100} constant %far = u8[] {250}";
  const std::string layer =
      text + " %y = QLinearConv (%x, %s, %z, %w, %ws, %wz, %t, %z, %b) {pads = [1, 1, 1, 1]} output %y }";
  EXPECT_EQ(lowered(layer), (Ops{"Transpose", "tessera::QuantisedConv", "Transpose"}));
  expect_same_outputs(layer);
  const std::string unsigned_weights = text + " %y = QLinearConv (%x, %s, %z, %wu, %ws, %half, %t, %z) output %y }";
  EXPECT_EQ(lowered(unsigned_weights), (Ops{"Transpose", "tessera::QuantisedConv", "Transpose"}));
  expect_same_outputs(unsigned_weights);
  // Around any zero point, as long as the differences are signed bytes.
  const std::string shifted = text + " %y = QLinearConv (%x, %s, %z, %wu, %ws, %odd, %t, %z) output %y }";
  EXPECT_EQ(lowered(shifted), (Ops{"Transpose", "tessera::QuantisedConv", "Transpose"}));
  expect_same_outputs(shifted);
  EXPECT_EQ(lowered(text + " %y = QLinearConv (%x, %s, %z, %wu, %ws, %far, %t, %z) output %y }"), (Ops{"QLinearConv"}));
}

// No integer kernel takes it: it is computed in real numbers, not by the reference kernel.
TEST(LowerQuantised, DepthwiseLayersOfSignedBytes) {
  const std::string text =
      "graph { input %x : i8[batch, 6, 5, 5]" + kScales + numbers("w", "i8", {6, 1, 3, 3}, -60, 10) +
      numbers("b", "i32", {6}, -600, 100) +
      " constant %ws = f32[6] {0.01, 0.02, 0.01, 0.03, 0.02, 0.01} constant %wz = i8[6] {0, 0, 0, 0, 0, 0} "
      "%y = QLinearConv (%x, %s, %zi, %w, %ws, %wz, %t, %zi, %b) {pads = [1, 1, 1, 1], group = 6} output %y }";
  EXPECT_EQ(lowered(text), (Ops{"DequantizeLinear", "Conv", "QuantizeLinear"}));
  // Sums of rounded products may end on the other side of a half.
  const Model model(std::make_shared<const ir::Graph>(parsed(text)));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions reference;
  reference.device = "reference";
  const Tensor expected = Session(model, reference).run(inputs).at("y").tensor(),
               got = Session(model).run(inputs).at("y").tensor();
  ASSERT_EQ(got.shape(), expected.shape());
  int others = 0;
  for (std::int64_t i = 0; i < got.elements(); ++i) {
    const int difference = std::abs(got.data<std::int8_t>()[i] - expected.data<std::int8_t>()[i]);
    EXPECT_LE(difference, 1) << i;
    others += difference != 0;
  }
  EXPECT_LE(others, got.elements() / 20);
}

TEST(FoldConstants, LeavesWeightsThatIntegerLayersWant) {
  const ir::Graph folded = fold_constants(parsed(kStart + kConv + " output %y, %vd }"), cpu_pass_context());
  EXPECT_EQ(ops_of(folded), (Ops{"QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "Conv"}));
}

}  // namespace
}  // namespace tessera::passes::lower_quantised_test
