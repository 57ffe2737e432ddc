// Normalisations in the spellings of exporters, and what only resembles them.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::recognise_normalisation_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kStart =
    "graph { input %x : f32[batch, 3, 4] constant %last = i64[1] {-1} constant %1 = i64[1] {1} constant %eps = f32[] "
    "{1e-5} constant %two = f32[] {2} constant %one = f32[] {1} "
    "constant %root = f32[] {0.5} constant %inverse = f32[] {-0.5} constant %g = f32[4] {1, 2, 3, 4} constant %b = "
    "f32[4] {-1, 0, 1, 2} ";
const std::string kMoments =
    "%m = ReduceMean (%x, %last) %c = Sub (%x, %m) %q = Mul (%c, %c) %v = ReduceMean (%q, %last) %w = Add (%v, %eps) ";
const std::string kScaled = kMoments + "%d = Sqrt (%w) %h = Div (%c, %d) %s = Mul (%h, %g) ";
const std::string kEnd = "output %y }";
const std::string kAttributes = " {axis = -1, epsilon = 1e-05}";

void expect_recognised(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(text, "recognise_normalisation", nodes, 100);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(text, "recognise_normalisation");
}

// In other types; results are cast, so that they may differ by what halves are rounded by.
std::string in_type(std::string text, const std::string& type) {
  for (std::size_t at = text.find("f32["); at != std::string::npos; at = text.find("f32[", at + 1))
    text.replace(at, 3, type);
  return text;
}

TEST(RecogniseNormalisation, OfHalves) {
  for (const std::string type : {"f16", "bf16"}) {
    const std::string end = "%z = Cast (%y) {to = 1} output %z }";
    const auto expect = [&](const std::string& text, const std::string& node) {
      test::expect_rewritten(in_type(kStart + text, type) + end, "recognise_normalisation",
                             {node, "%z = Cast (%y) {to = 1}"}, 100 << 13);
    };
    expect(kScaled + "%y = Add (%s, %b) ", "%y = LayerNormalization (%x, %g, %b) {axis = -1, epsilon = 1.001358e-05}");
    expect("%q = Pow (%x, %two) %v = ReduceMean (%q, %last) %w = Add (%v, %eps) %d = Sqrt (%w) %y = Div (%x, %d) ",
           "%y = RMSNormalization (%x, %?) {axis = -1, epsilon = 1.001358e-05}");
  }
}

TEST(RecogniseNormalisation, AsFrameworksSpellLayerNormalisation) {
  const Lines whole{"%y = LayerNormalization (%x, %g, %b)" + kAttributes};
  expect_recognised(kStart + kScaled + "%y = Add (%s, %b) " + kEnd, whole);
  // PyTorch's power.
  expect_recognised(kStart +
                        "%m = ReduceMean (%x, %last) %c = Sub (%x, %m) %q = Pow (%c, %two) %v = ReduceMean (%q, %last) "
                        "%w = Add (%eps, %v) %d = Pow (%w, %root) "
                        "%h = Div (%c, %d) %s = Mul (%g, %h) %y = Add (%b, %s) " +
                        kEnd,
                    whole);
  // Products with the reciprocal.
  expect_recognised(kStart + kMoments +
                        "%d = Sqrt (%w) %i = Reciprocal (%d) %h = Mul (%c, %i) %s = Mul (%h, %g) %y = Add (%s, %b) " +
                        kEnd,
                    whole);
  expect_recognised(kStart + kMoments +
                        "%d = Sqrt (%w) %i = Div (%one, %d) %j = Mul (%i, %g) %s = Mul (%c, %j) %y = Add (%s, %b) " +
                        kEnd,
                    whole);
  expect_recognised(
      kStart + kMoments + "%i = Pow (%w, %inverse) %h = Mul (%i, %c) %s = Mul (%h, %g) %y = Add (%s, %b) " + kEnd,
      whole);
  // TensorFlow's line.
  expect_recognised(kStart + kMoments +
                        "%d = Sqrt (%w) %i = Reciprocal (%d) %j = Mul (%i, %g) %k = Mul (%x, %j) %l = Mul (%m, %j) %n "
                        "= Sub (%b, %l) %y = Add (%k, %n) " +
                        kEnd,
                    whole);
}

TEST(RecogniseNormalisation, AsJaxSpellsIt) {
  expect_recognised(
      "graph { input %x : f32[2, 4] constant %1 = i64[1] {1} constant %n = f32[] {0.25} constant %eps = f32[] {1e-5} "
      "constant %zero = f32[] {0} constant %g = f32[1, 4] {1, 2, 3, 4} "
      "constant %b = f32[1, 4] {-1, 0, 1, 2} constant %k = i64[2] {2, 1} %s = ReduceSum (%x, %1) {keepdims = 0} %q = "
      "Mul (%x, %x) %t = ReduceSum (%q, %1) {keepdims = 0} "
      "%m = Mul (%s, %n) %v = Mul (%t, %n) %o = Mul (%m, %m) %p = Sub (%v, %o) %r = Max (%zero, %p) %u = Reshape (%r, "
      "%k) %w = Add (%u, %eps) %d = Sqrt (%w) %i = Reciprocal (%d) "
      "%j = Mul (%i, %g) %l = Reshape (%m, %k) %c = Sub (%x, %l) %h = Mul (%c, %j) %y = Add (%h, %b) " +
          kEnd,
      {"%y = LayerNormalization (%x, %?, %?)" + kAttributes});
}

TEST(RecogniseNormalisation, SumsOverAxesOfAnyLengthAreNoMeans) {
  expect_unchanged(
      "graph { input %x : f32[2, 4, height, width, 3] constant %a = i64[3] {2, 3, 4} constant %n = f32[] {3} constant "
      "%eps = f32[] {1e-5} %s = ReduceSum (%x, %a) %m = Div (%s, %n) "
      "%c = Sub (%x, %m) %q = Mul (%c, %c) %t = ReduceSum (%q, %a) %v = Div (%t, %n) %w = Add (%v, %eps) %d = Sqrt "
      "(%w) %y = Div (%c, %d) " +
      kEnd);
}

TEST(RecogniseNormalisation, WithLessBehindIt) {
  expect_recognised(kStart + kScaled + "%y = Neg (%s) " + kEnd,
                    {"%s = LayerNormalization (%x, %g)" + kAttributes, "%y = Neg (%s)"});
  expect_recognised(kStart + kMoments + "%d = Sqrt (%w) %y = Div (%c, %d) " + kEnd,
                    {"%y = LayerNormalization (%x, %?)" + kAttributes});
  // A shift that is not the normalisation's.
  expect_recognised(kStart + "input %z : f32[batch, 3, 4] " + kScaled + "%y = Add (%s, %z) " + kEnd,
                    {"%s = LayerNormalization (%x, %g)" + kAttributes, "%y = Add (%s, %z)"});
  // One number for all.
  expect_recognised(
      kStart + kMoments + "%d = Sqrt (%w) %h = Div (%c, %d) %s = Mul (%h, %two) %y = Add (%s, %b) " + kEnd,
      {"%y = LayerNormalization (%x, %?, %b)" + kAttributes});
}

TEST(RecogniseNormalisation, OverSeveralAxes) {
  expect_recognised(
      "graph { input %x : f32[batch, 2, 2] constant %a = i64[2] {1, 2} constant %eps = f32[] {1e-5} constant %two = "
      "f32[] {2} constant %g = f32[2, 2] {1, 2, 3, 4} "
      "%m = ReduceMean (%x, %a) %c = Sub (%x, %m) %q = Pow (%c, %two) %v = ReduceMean (%q, %a) %w = Add (%v, %eps) %d "
      "= Sqrt (%w) %h = Div (%c, %d) %y = Mul (%h, %g) " +
          kEnd,
      {"%y = LayerNormalization (%x, %g) {axis = 1, epsilon = 1e-05}"});
}

TEST(RecogniseNormalisation, ByRootMeanSquares) {
  const std::string squares = "%q = Mul (%x, %x) %v = ReduceMean (%q, %last) %w = Add (%v, %eps) %d = Sqrt (%w) ";
  const Lines whole{"%y = RMSNormalization (%x, %g)" + kAttributes};
  expect_recognised(kStart + squares + "%h = Div (%x, %d) %y = Mul (%g, %h) " + kEnd, whole);
  expect_recognised(kStart + squares + "%i = Reciprocal (%d) %h = Mul (%x, %i) %y = Mul (%h, %g) " + kEnd, whole);
  expect_recognised(kStart + squares + "%h = Div (%x, %d) %s = Mul (%g, %h) %y = Add (%s, %b) " + kEnd,
                    {"%s = RMSNormalization (%x, %g)" + kAttributes, "%y = Add (%s, %b)"});
}

TEST(RecogniseNormalisation, ByChannels) {
  const std::string start =
      "graph { input %x : f32[batch, 3, 2, w] constant %a = i64[2] {2, 3} constant %eps = f32[] {1e-5} constant %g = "
      "f32[3, 1, 1] {1, 2, 3} constant %b = f32[1, 3, 1, 1] {-1, 0, 1} "
      "%m = ReduceMean (%x, %a) %c = Sub (%x, %m) %q = Mul (%c, %c) %v = ReduceMean (%q, %a) %w = Add (%v, %eps) %d = "
      "Sqrt (%w) %h = Div (%c, %d) ";
  expect_recognised(start + "%s = Mul (%h, %g) %y = Add (%s, %b) " + kEnd,
                    {"%y = InstanceNormalization (%x, %?, %?) {epsilon = 1e-05}"});
  expect_recognised(start + "%y = Neg (%h) " + kEnd,
                    {"%h = InstanceNormalization (%x, %?, %?) {epsilon = 1e-05}", "%y = Neg (%h)"});
}

// Channels last, as Keras has them: x / deviation · g + (b - mean / deviation · g), in the spellings of two versions.
const std::string kKerasNumbers = "constant %eps = f32[] {1e-3} ";
const std::string kLine =
    "%m = ReduceMean (%r, %axes) %c = Sub (%r, %m) %q = Mul (%c, %c) %v = ReduceMean (%q, %axes) %w = Add (%v, %eps) "
    "%d = Sqrt (%w) %i = Reciprocal (%d) ";

TEST(RecogniseNormalisation, ByLastChannels) {
  const std::string start =
      "graph { input %r : f32[batch, 3, 2, 4] constant %axes = i64[2] {1, 2} constant %g = f32[4] {1, 2, 3, 4} "
      "constant %b = f32[1, 1, 1, 4] {-1, 0, 1, 2} " +
      kKerasNumbers + kLine;
  const Lines whole{"%? = Transpose (%r) {perm = [0, 3, 1, 2]}",
                    "%? = InstanceNormalization (%?, %g, %?) {epsilon = 0.001}",
                    "%y = Transpose (%?) {perm = [0, 2, 3, 1]}"};
  expect_recognised(
      start + "%j = Mul (%i, %g) %k = Mul (%r, %j) %l = Mul (%m, %j) %n = Sub (%b, %l) %y = Add (%k, %n) " + kEnd,
      whole);
  expect_recognised(
      start +
          "%j = Mul (%i, %g) %k = Mul (%r, %j) %o = Neg (%m) %l = Mul (%o, %j) %n = Add (%l, %b) %y = Add (%k, %n) " +
          kEnd,
      whole);
  expect_recognised(start + "%h = Mul (%c, %i) %s = Mul (%h, %g) %y = Add (%s, %b) " + kEnd, whole);
  expect_recognised(start + "%k = Mul (%r, %i) %o = Neg (%m) %l = Mul (%o, %i) %y = Add (%k, %l) " + kEnd,
                    {whole[0], "%? = InstanceNormalization (%?, %?, %?) {epsilon = 0.001}", whole[2]});
  // A scale a position comes behind it.
  expect_recognised(start + "constant %p = f32[2, 1] {1, 2} %h = Mul (%c, %i) %y = Mul (%h, %p) " + kEnd,
                    {whole[0], "%? = InstanceNormalization (%?, %?, %?) {epsilon = 0.001}",
                     "%h = Transpose (%?) {perm = [0, 2, 3, 1]}", "%y = Mul (%h, %p)"});
  // Not the opposite of the mean, and another mean.
  expect_unchanged(start +
                   "%j = Mul (%i, %g) %k = Mul (%r, %j) %l = Mul (%m, %j) %n = Add (%l, %b) %y = Add (%k, %n) " + kEnd);
  expect_unchanged(start +
                   "input %z : f32[batch, 1, 1, 4] %j = Mul (%i, %g) %k = Mul (%r, %j) %l = Mul (%z, %j) %n = Sub (%b, "
                   "%l) %y = Add (%k, %n) " +
                   kEnd);
  // All but the first of the positions.
  expect_unchanged(
      "graph { input %r : f32[batch, 3, 2, 4] constant %axes = i64[1] {2} constant %g = f32[4] {1, 2, 3, 4} " +
      kKerasNumbers + kLine + "%h = Mul (%c, %i) %y = Mul (%h, %g) " + kEnd);
}

TEST(RecogniseNormalisation, ByGroupsOfLastChannels) {
  const std::string start =
      "graph { input %x : f32[batch, 3, 2, 6] constant %axes = i64[3] {1, 2, 4} constant %n = i64[5] {0, 3, 2, 2, 3} "
      "constant %t = i64[4] {0, 3, 2, 6} constant %g = f32[1, 1, 1, 2, 3] {1, 2, 3, 4, 5, 6} "
      "constant %b = f32[2, 3] {-1, 0, 1, 2, 3, 4} %r = Reshape (%x, %n) " +
      kKerasNumbers + kLine;
  const std::string line = "%j = Mul (%i, %g) %k = Mul (%r, %j) %l = Mul (%m, %j) %p = Sub (%b, %l) %u = Add (%k, %p) ";
  const Lines whole{"%? = Transpose (%x) {perm = [0, 3, 1, 2]}",
                    "%? = GroupNormalization (%?, %?, %?) {epsilon = 0.001, num_groups = 2}",
                    "%y = Transpose (%?) {perm = [0, 2, 3, 1]}"};
  expect_recognised(start + line + "%y = Reshape (%u, %t) " + kEnd, whole);
  expect_recognised(start + line + "%s = Shape (%x) %y = Reshape (%u, %s) " + kEnd, whole);
  expect_recognised(
      start + "%y0 = Mul (%r, %i) %o = Neg (%m) %l = Mul (%o, %i) %u = Add (%y0, %l) %y = Reshape (%u, %t) " + kEnd,
      whole);
  // Another shape, and a second use.
  expect_unchanged(start + "constant %other = i64[3] {0, 6, 6} " + line + "%y = Reshape (%u, %other) " + kEnd);
  expect_unchanged(start + line + "%y = Reshape (%u, %t) %z = Neg (%u) output %z, %y }");
  // Where the groups are the first of the two axes of channels, each channel of all groups is normalised by itself.
  expect_recognised(
      "graph { input %x : f32[batch, 3, 2, 6] constant %axes = i64[3] {1, 2, 3} constant %n = i64[5] {0, 3, 2, 2, 3} "
      "constant %t = i64[4] {0, 3, 2, 6} %r = Reshape (%x, %n) " +
          kKerasNumbers + kLine + "%u = Mul (%c, %i) %y = Reshape (%u, %t) " + kEnd,
      {"%r = Reshape (%x, %n)", "%? = Transpose (%r) {perm = [0, 4, 1, 2, 3]}",
       "%? = InstanceNormalization (%?, %?, %?) {epsilon = 0.001}", "%u = Transpose (%?) {perm = [0, 2, 3, 4, 1]}",
       "%y = Reshape (%u, %t)"});
}

TEST(RecogniseNormalisation, LeavesOtherUses) {
  for (const std::string inner : {"%c", "%m", "%v", "%d"}) {
    expect_unchanged(kStart + kScaled + "%y = Add (%s, %b) %z = Neg (" + inner + ") output %y, %z }");
    expect_unchanged(kStart + kScaled + "%y = Add (%s, %b) output %y, " + inner + " }");
  }
}

TEST(RecogniseNormalisation, LeavesWhatIsSomethingElse) {
  const std::string end = "%d = Sqrt (%w) %h = Div (%c, %d) %s = Mul (%h, %g) %y = Add (%s, %b) " + kEnd;
  const std::string centred = "%m = ReduceMean (%x, %last) %c = Sub (%x, %m) %q = Mul (%c, %c) ";
  expect_unchanged(
      kStart +
      "%m = ReduceMean (%x, %1) %c = Sub (%x, %m) %q = Mul (%c, %c) %v = ReduceMean (%q, %1) %w = Add (%v, %eps) " +
      end);  // an axis in the middle
  expect_unchanged(
      kStart +
      "%m = ReduceMean (%x, %1) %c = Sub (%x, %m) %q = Mul (%c, %x) %v = ReduceMean (%q, %last) %w = Add (%v, %eps) " +
      end);
  expect_unchanged(kStart + centred + "%v = ReduceSum (%q, %last) %w = Add (%v, %eps) " + end);
  expect_unchanged(kStart + centred + "%v = ReduceMean (%q, %last) %w = Add (%v, %g) " + end);  // no constant epsilon
  expect_unchanged(kStart + "input %z : f32[batch, 3, 4] " + centred +
                   "%v = ReduceMean (%q, %last) %w = Add (%v, %eps) %d = Sqrt (%w) %y = Div (%z, %d) " + kEnd);
  expect_unchanged("graph { input %x : f64[2, 4] constant %last = i64[1] {-1} constant %eps = f64[] {1e-5} " +
                   kMoments + "%d = Sqrt (%w) %y = Div (%c, %d) " + kEnd);
  expect_unchanged("graph { input %x : f32[*] constant %last = i64[1] {-1} constant %eps = f32[] {1e-5} " + kMoments +
                   "%d = Sqrt (%w) %y = Div (%c, %d) " + kEnd);
}

}  // namespace
}  // namespace tessera::passes::recognise_normalisation_test
