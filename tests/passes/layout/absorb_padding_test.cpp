// Padding that windows step over by themselves, and padding that counts.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::absorb_padding_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kStart =
    "graph { input %x : f32[batch, 1, 5, 6] constant %p = i64[8] {0, 0, 1, 2, 0, 0, 0, 1} constant %q = i64[4] {1, 1, "
    "0, 1} constant %spatial = i64[2] {2, 3} "
    "constant %w = f32[2, 1, 3, 3] {1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -2, -3, -4, -5, -6, -7, -8, -9} constant %one = "
    "f32[] {1} constant %lowest = f32[] {-inf} ";
const std::string kPad = "%a = Pad (%x, %p) ", kPadLowest = "%a = Pad (%x, %p, %lowest) ";

void expect_absorbed(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(kStart + text, "absorb_padding", nodes, 20);
}
void expect_unchanged(const std::string& text) {
  test::expect_left_alone(kStart + text, "absorb_padding");
}

TEST(AbsorbPadding, OfZerosBeforeConvolutions) {
  expect_absorbed(kPad + "%y = Conv (%a, %w) output %y }", {"%y = Conv (%x, %w) {pads = [1, 2, 0, 1]}"});
  expect_absorbed(kPad + "%y = Conv (%a, %w) {pads = [1, 0, 1, 0]} output %y }",
                  {"%y = Conv (%x, %w) {pads = [2, 2, 1, 1]}"});
  expect_absorbed(kPad + "%y = Conv (%a, %w) {auto_pad = \"VALID\"} output %y }",
                  {"%y = Conv (%x, %w) {pads = [1, 2, 0, 1]}"});
  expect_absorbed("%a = Pad (%x, %q, none, %spatial) %y = Conv (%a, %w) output %y }",
                  {"%y = Conv (%x, %w) {pads = [1, 1, 0, 1]}"});
}

TEST(AbsorbPadding, OfZerosBeforeAverages) {
  const std::string kernel = "{count_include_pad = 1, kernel_shape = [3, 3], pads = [1, 2, 0, 1]}";
  expect_absorbed(kPad + "%y = AveragePool (%a) {kernel_shape = [3, 3]} output %y }",
                  {"%y = AveragePool (%x) " + kernel});
  expect_absorbed(
      kPad + "%y = AveragePool (%a) {count_include_pad = 1, kernel_shape = [4, 4], pads = [1, 1, 1, 1]} output %y }",
      {"%y = AveragePool (%x) {count_include_pad = 1, kernel_shape = [4, 4], pads = [2, 3, 1, 2]}"});
  expect_unchanged(
      kPad + "%y = AveragePool (%a) {kernel_shape = [4, 4], pads = [1, 1, 1, 1]} output %y }");  // counts one padding
                                                                                                 // and not the other
  expect_unchanged(kPad +
                   "%y = AveragePool (%a) {kernel_shape = [2, 2]} output %y }");  // a window of nothing but padding
}

TEST(AbsorbPadding, OfWhatIsNoMaximum) {
  const std::string pool = "%y = MaxPool (%a) {kernel_shape = [3, 3]} output %y }",
                    result = "{kernel_shape = [3, 3], pads = [1, 2, 0, 1]}";
  expect_absorbed(kPadLowest + pool, {"%y = MaxPool (%x) " + result});
  expect_absorbed("%r = Relu (%x) %a = Pad (%r, %p) " + pool, {"%r = Relu (%x)", "%y = MaxPool (%r) " + result});
  expect_absorbed("input %u : u8[1, 1, 5, 6] %a = Pad (%u, %p) " + pool, {"%y = MaxPool (%u) " + result});
  expect_unchanged(kPad + pool);
  expect_unchanged("%r = Relu (%x) %a = Pad (%r, %p, %one) " + pool);
  expect_unchanged(kPadLowest + "%y, %i = MaxPool (%a) {kernel_shape = [3, 3]} output %y, %i }");
  expect_unchanged("input %i : i8[1, 1, 5, 6] %a = Pad (%i, %p) " + pool);
}

TEST(AbsorbPadding, NotWhatOthersUseOrWindowsCannotDo) {
  const std::string conv = "%y = Conv (%a, %w) output %y }";
  expect_unchanged(kPad + "%y = Conv (%a, %w) output %y, %a }");
  expect_unchanged(kPad + "%z = Exp (%a) %y = Conv (%a, %w) output %y, %z }");
  expect_unchanged("%a = Pad (%x, %p, %one) " + conv);
  expect_unchanged("%a = Pad (%x, %p) {mode = \"reflect\"} " + conv);
  expect_unchanged("constant %n = i64[8] {0, 0, -1, 0, 0, 0, 0, 0} %a = Pad (%x, %n) " + conv);
  expect_unchanged("constant %n = i64[8] {1, 0, 1, 0, 0, 0, 0, 0} %a = Pad (%x, %n) " + conv);
  expect_unchanged(kPad + "%y = Conv (%a, %w) {auto_pad = \"SAME_UPPER\"} output %y }");
  expect_unchanged("input %n : i64[8] %a = Pad (%x, %n) " + conv);
}

}  // namespace
}  // namespace tessera::passes::absorb_padding_test
