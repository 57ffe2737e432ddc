// Convolutions on data with the channels last: what the passes make of graphs, as text, and that outputs stay the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/session/random_inputs.h"
#include "support/pass_context.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::passes::channels_last_test {
namespace {

using test::parsed;
using Steps = std::vector<std::string>;

PassContext context() {
  return test::cpu_pass_context();
}
Steps steps(const ir::Graph& graph) {
  return test::ops_of(graph);
}

// Outputs with the passes and without them, on made-up inputs.
void expect_same_outputs(const std::string& text) {
  const Model model(std::make_shared<const ir::Graph>(parsed(text)));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions plain;
  plain.device = "reference";
  plain.without_passes = {"recognise_activations", "channels_last", "fuse_epilogues"};
  const NamedValues expected = Session(model, plain).run(inputs), got = Session(model).run(inputs);
  for (const auto& [name, value] : expected) {
    EXPECT_TRUE(test::close_to(got.at(name).tensor(), value.tensor(), test::Tolerance::epsilons(DType::f32, 64)))
        << name;
  }
}

// Constants of f32 with made-up elements, as text.
std::string constant(const std::string& name, const Shape& shape, float low = -1) {
  std::string elements;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    elements += (i == 0 ? "" : ", ") + std::to_string(low + static_cast<float>(i * 7 % 13) / 6.5f);
  return " constant %" + name + " = f32" + to_string(shape) + " {" + elements + "}";
}

const std::string kInput = "graph { input %x : f32[batch, 4, 6, 6]" + constant("w", {5, 4, 3, 3}) + constant("b", {5});

const std::string kBlock =
    kInput + constant("v", {5, 5, 1, 1}) + constant("k", {5, 1, 3, 3}) +
    " %y = Conv (%x, %w, %b) {pads = [1, 1, 1, 1]} %r = Relu (%y) %d = Conv (%r, %k) {group = 5, pads = [1, 1, 1, 1]} "
    "%h = HardSwish (%d)"
    " %p = Conv (%h, %v) %a = Add (%p, %r) %c = Relu (%a) %m = MaxPool (%c) {kernel_shape = [2, 2], strides = [2, 2]} ";

TEST(ChannelsLast, ABlockStaysInTheForm) {
  const ir::Graph last = channels_last(parsed(kBlock + "output %m }"), context());
  EXPECT_EQ(steps(last),
            (Steps{"Transpose", "tessera::ChannelsLastConv", "Relu", "tessera::ChannelsLastConv", "HardSwish",
                   "tessera::ChannelsLastConv", "Add", "Relu", "tessera::ChannelsLastMaxPool", "Transpose"}));
  EXPECT_EQ(steps(fuse_epilogues(last, context())),
            (Steps{"Transpose", "tessera::ChannelsLastConv Relu", "tessera::ChannelsLastConv HardSwish",
                   "tessera::ChannelsLastConv + Z Relu", "tessera::ChannelsLastMaxPool", "Transpose"}));
  expect_same_outputs(kBlock + "output %m }");
}

TEST(ChannelsLast, AMeanOverSpaceNeedsNoTransposeBehindIt) {
  const std::string text = kBlock + "%g = GlobalAveragePool (%m) %f = Flatten (%g) output %f }";
  const Steps names = steps(channels_last(parsed(text), context()));
  EXPECT_EQ((Steps{names.end() - 3, names.end()}), (Steps{"ReduceMean", "Reshape", "Flatten"}));
  expect_same_outputs(text);
}

TEST(ChannelsLast, SumsWithConstantsOfAnyRankAndJoinsAlongChannels) {
  const std::string text = kBlock + constant("t", {5, 1, 1}) + constant("u", {}) +
                           "%1 = Mul (%m, %t) %2 = Sub (%u, %1) %3 = Concat (%2, %m) {axis = -3} output %3 }";
  const Steps names = steps(channels_last(parsed(text), context()));
  EXPECT_EQ((Steps{names.end() - 4, names.end()}), (Steps{"Mul", "Sub", "Concat", "Transpose"}));
  expect_same_outputs(text);
}

TEST(ChannelsLast, DecodersStayInTheForm) {
  const std::string text = kBlock + constant("up", {5, 4, 2, 2}) +
                           " constant %scales = f32[4] {1, 1, 2, 2} constant %axes = i64[2] {2, 3}" +
                           " %1 = ConvTranspose (%m, %up) {strides = [2, 2]} %2 = Relu (%1) %3 = Resize (%2, none, "
                           "%scales) %4 = ReduceMean (%3, %axes) %5 = Sub (%3, %4) output %5 }";
  const Steps names = steps(fuse_epilogues(channels_last(parsed(text), context()), context()));
  EXPECT_EQ((Steps{names.end() - 5, names.end()}),
            (Steps{"tessera::ChannelsLastConvTranspose Relu", "Resize", "ReduceMean", "Sub", "Transpose"}));
  expect_same_outputs(text);
}

TEST(ChannelsLast, OtherUsersGetTheOldForm) {
  const std::string text = kBlock + "%1 = Softmax (%m) {axis = 3} output %1, %r }";
  expect_same_outputs(text);
}

// The addend is needed no more, so the sum is written where it was.
TEST(ChannelsLast, SumsInThePlaceOfTheirAddend) {
  for (const auto& [window, group] : {std::pair{3, 1}, {1, 1}, {3, 20}}) {
    const std::int64_t pad = window / 2;
    const std::string text = "graph { input %x : f32[1, 20, 15, 15]" + constant("w", {20, 20 / group, window, window}) +
                             " %y = Conv (%x, %w) {group = " + std::to_string(group) + ", pads = [" +
                             fmt::format("{0}, {0}, {0}, {0}", pad) +
                             "]} %n = Neg (%x) %s = Add (%y, %n) %r = Relu (%s) output %r }";
    const Steps names = steps(fuse_epilogues(channels_last(parsed(text), context()), context()));
    EXPECT_NE(std::ranges::find(names, "tessera::ChannelsLastConv + Z Relu"), names.end());
    expect_same_outputs(text);
  }
}

TEST(FuseEpilogues, ProductsTakeBiasAddendAndActivation) {
  const std::string start =
      "graph { input %x : f32[batch, 3, 4] input %z : f32[batch, 3, 5]" + constant("w", {4, 5}) + constant("b", {5});
  const auto fused = [&](const std::string& nodes) { return steps(fuse_epilogues(parsed(start + nodes), context())); };
  const std::string all = " %p = MatMul (%x, %w) %q = Add (%b, %p) %r = Add (%q, %z) %s = Gelu (%r) output %s }";
  EXPECT_EQ(fused(all), Steps{"tessera::Linear Gelu"});
  expect_same_outputs(start + all);
  EXPECT_EQ(fused(" %p = MatMul (%x, %w) output %p }"), Steps{"MatMul"});
  EXPECT_EQ(fused(" %p = MatMul (%x, %w) %q = Add (%p, %b) output %q, %p }"), (Steps{"MatMul", "Add"}));
  EXPECT_EQ(fused(" %p = MatMul (%x, %w) %q = Add (%p, %z) %r = Add (%q, %b) output %r }"),
            (Steps{"tessera::Linear", "Add"}));
  const std::string sum = " %p = MatMul (%x, %w) %q = MatMul (%x, %w) %r = Add (%p, %q) %t = Tanh (%r) output %t }";
  EXPECT_EQ(fused(sum), (Steps{"MatMul", "tessera::Linear Tanh"}));
  expect_same_outputs(start + sum);
}

TEST(ChannelsLast, SlicesFollowAlongTheirAxes) {
  const std::string text = kInput + constant("k", {2, 3, 1, 1}) +
                           " constant %s = i64[2] {2, 0} constant %e = i64[2] {9, -1} constant %a = i64[2] {1, 2} %y = "
                           "Conv (%x, %w, %b) {pads = [1, 1, 1, 1]}"
                           " %p = Slice (%y, %s, %e, %a) %q = Conv (%p, %k) output %q }";
  EXPECT_EQ(steps(channels_last(parsed(text), context())),
            (Steps{"Transpose", "tessera::ChannelsLastConv", "Slice", "tessera::ChannelsLastConv", "Transpose"}));
  expect_same_outputs(text);
}

TEST(ChannelsLast, SlicesOfWhatHasBothFormsStay) {
  const std::string text = kInput +
                           " constant %s = i64[1] {1} constant %e = i64[1] {2} %y = Conv (%x, %w, %b) %p = Slice (%x, "
                           "%s, %e, %s) %q = Exp (%p) output %y, %q }";
  EXPECT_EQ(steps(channels_last(parsed(text), context())),
            (Steps{"Slice", "Exp", "Transpose", "tessera::ChannelsLastConv", "Transpose"}));
  expect_same_outputs(text);
}

TEST(ChannelsLast, LeavesWhatTheDeviceHasNoKernelFor) {
  PassContext none = context();
  none.keeps_composite = {};
  EXPECT_EQ(steps(channels_last(parsed(kBlock + "output %m }"), none))[0], "Conv");
}

// As those of a training step, which are variables.
TEST(ChannelsLast, TakesWeightsThatAreNoConstants) {
  const std::string text =
      "graph { input %x : f32[1, 4, 6, 6] input %w : f32[5, 4, 3, 3] %y = Conv (%x, %w) %z = ConvTranspose (%y, %w) "
      "output %z }";
  EXPECT_EQ(steps(channels_last(parsed(text), context())),
            (Steps{"Transpose", "tessera::ChannelsLastConv", "tessera::ChannelsLastConvTranspose", "Transpose"}));
  expect_same_outputs(text);
}

TEST(ChannelsLast, GradientsOfWeightsReadBothSignalsInTheForm) {
  const std::string text =
      "graph { input %x : f32[2, 4, 6, 6] input %w : f32[5, 4, 3, 3] %y = Conv (%x, %w) %g = Relu (%y) "
      "%dw = tessera::ConvWeightGradient (%x, %g) {kernel_shape = [3, 3]} constant %a = i64[3] {0, 2, 3} "
      "%db = ReduceSum (%g, %a) {keepdims = 0} output %dw, %db }";
  EXPECT_EQ(steps(channels_last(parsed(text), context())),
            (Steps{"Transpose", "tessera::ChannelsLastConv", "Relu", "tessera::ChannelsLastConvWeightGradient",
                   "ReduceSum"}));
  expect_same_outputs(text);
}

TEST(ChannelsLast, SplitsFeatureMaps) {
  const std::string text =
      "graph { input %x : f32[1, 4, 6, 6] input %w : f32[5, 4, 3, 3] input %v : f32[2, 2, 1, 1] %y = Conv (%x, %w) "
      "constant %s = i64[2] {2, 3} %a, %b = Split (%y, %s) {axis = 1} %z = Conv (%a, %v) output %z, %b }";
  EXPECT_EQ(steps(channels_last(parsed(text), context())),
            (Steps{"Transpose", "tessera::ChannelsLastConv", "Split", "Transpose", "tessera::ChannelsLastConv",
                   "Transpose"}));
  expect_same_outputs(text);
}

TEST(ChannelsLast, VariablesPerChannelBroadcast) {
  const std::string text =
      "graph { input %x : f32[1, 4, 6, 6] input %w : f32[5, 4, 3, 3] input %s : f32[5, 1, 1] %y = Conv (%x, %w) "
      "%z = Mul (%y, %s) output %z }";
  EXPECT_EQ(steps(channels_last(parsed(text), context())),
            (Steps{"Transpose", "tessera::ChannelsLastConv", "Reshape", "Reshape", "Mul", "Transpose"}));
  expect_same_outputs(text);
}

}  // namespace
}  // namespace tessera::passes::channels_last_test
