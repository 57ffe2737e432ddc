#include "report/inspect/model_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/pass_context.h"

namespace tessera::report::model_difference_test {
namespace {

using test::parsed;
using testing::HasSubstr;

Model model(const std::string& text) {
  return Model(std::make_shared<const ir::Graph>(parsed(text)));
}

// y = Relu(x * factor + shift), by name a chain of three nodes.
Model chain(const std::string& factor, const std::string& last = "Relu") {
  return model("graph { input %x : f32[2, 3] constant %f = f32[] {" + factor +
               "} constant %s = f32[] {1}"
               " %scaled = Mul \"scale\" (%x, %f) %moved = Add \"shift\" (%scaled, %s) %y = " +
               last + " \"last\" (%moved) output %y }");
}

const NamedValues kInputs{{"x", Tensor::from<float>({2, 3}, {0, 0, 0, 0, 2, 4})}};

std::vector<std::string> names(const std::vector<ValueComparison>& list) {
  std::vector<std::string> result;
  for (const ValueComparison& each : list) result.push_back(each.difference.name);
  return result;
}

TEST(CompareModels, FindsNothingBetweenEqualOnes) {
  const ModelDifference difference = compare_models(chain("2"), chain("2"), kInputs, {});
  EXPECT_TRUE(difference.same());
  EXPECT_EQ(names(difference.outputs), (std::vector<std::string>{"y"}));
  EXPECT_EQ(names(difference.values), (std::vector<std::string>{"scaled", "moved"}));
  EXPECT_EQ(headline(difference), "the same: 1 outputs and 2 values between");
}

TEST(CompareModels, NamesTheFirstNodeThatParts) {
  const ModelDifference difference = compare_models(chain("2"), chain("3"), kInputs, {});
  ASSERT_FALSE(difference.same());
  const ValueComparison& first = *difference.first();
  EXPECT_EQ(first.difference.name, "scaled");
  EXPECT_EQ(first.difference.first, (Shape{1, 1}));
  EXPECT_EQ(first.difference.first_a, 4);
  EXPECT_EQ(first.difference.first_b, 6);
  EXPECT_EQ(first.difference.different_elements, 2);
  EXPECT_EQ(first.difference.largest, 4);
  EXPECT_EQ(first.difference.relative, 0.5);
  EXPECT_EQ(headline(difference), "the first value that differs: 'scaled', made by node 'scale' (Mul)");
  const std::string text = model_difference_text(difference, 1);
  EXPECT_THAT(text, HasSubstr("1 of 1 outputs differ:\n  SNR, dB    cosine    largest  relative   differ  value\n      "
                              "7.4  0.998279          4     0.444    33.3%  'y' (Relu)\n"));
  EXPECT_THAT(text, HasSubstr("2 of 2 values between differ:\n"));
  EXPECT_THAT(text, HasSubstr("'scaled' (Mul)\n"));
  EXPECT_THAT(
      text,
      HasSubstr("made by node 'scale' (Mul)\n  2 of its 6 elements differ, the first at [1, 1]: 4 in A, 6 in B\n"));
  EXPECT_THAT(text, HasSubstr("… 1 more (--all lists them)\n"));
}

TEST(CompareModels, StartsAtTheNodeWhereTheFaultIs) {
  const ModelDifference difference = compare_models(chain("-2"), chain("-2", "Neg"), kInputs, {});
  EXPECT_EQ(difference.first()->difference.name, "y");
  EXPECT_TRUE(
      std::ranges::all_of(difference.values, [](const ValueComparison& each) { return each.difference.identical; }));
}

TEST(CompareModels, ForgivesWhatItIsToldTo) {
  EXPECT_TRUE(compare_models(chain("2"), chain("2.001"), kInputs, {}).same());
  EXPECT_FALSE(compare_models(chain("2"), chain("2.001"), kInputs, {.closeness = {.relative = 1e-5}}).same());
  EXPECT_TRUE(compare_models(chain("2"), chain("3"), kInputs, {.closeness = {.relative = 0, .absolute = 4}}).same());
}

TEST(CompareModels, HandsOutNoMoreThanItMayAtOnce) {
  const ModelDifference one = compare_models(chain("2"), chain("3"), kInputs, {}),
                        several = compare_models(chain("2"), chain("3"), kInputs, {.most_bytes = 24});
  EXPECT_EQ(one.runs, 2);
  EXPECT_EQ(several.runs, 3);
  EXPECT_EQ(names(one.values), names(several.values));
  EXPECT_EQ(several.first()->difference.first_b, 6);
}

TEST(CompareModels, SaysWhenShapesOrTypesDiffer) {
  const Model other =
      model("graph { input %x : f32[2, 3] constant %two = i64[1] {6} %y = Reshape \"flat\" (%x, %two) output %y }");
  const ModelDifference difference = compare_models(chain("2"), other, kInputs, {});
  EXPECT_EQ(difference.first()->difference.mismatch, "f32[2, 3] and f32[6]");
  EXPECT_EQ(difference.only_in_a, 2);
  EXPECT_EQ(difference.only_in_b, 0);
}

TEST(CompareModels, TakesInputsAndOutputsOfOtherNamesByPosition) {
  const Model other = model(
      "graph { input %in : f32[2, 3] constant %f = f32[] {2} constant %s = f32[] {1} %a = Mul (%in, %f) %b = Add (%a, "
      "%s) %out = Relu (%b) output %out }");
  const ModelDifference difference = compare_models(chain("2"), other, kInputs, {});
  EXPECT_TRUE(difference.same());
  EXPECT_EQ(names(difference.outputs), (std::vector<std::string>{"y"}));
  const Model two = model("graph { input %x : f32[2, 3] %a = Neg (%x) %b = Relu (%x) output %a, %b }");
  test::expect_error(ErrorKind::invalid_argument, "A has 1 outputs and B has 2, and not all of A's names are among B's",
                     [&] { compare_models(chain("2"), two, kInputs, {}); });
}

// A: x, convolution-like product, activation, another product. B: the same with rounded values between, as quantisers
// write it.
const char* const kReal =
    "graph { input %x : f32[2, 3] constant %f = f32[] {-2} constant %g = f32[] {3} %p = Mul \"first\" (%x, %f) %r = "
    "Relu \"act\" (%p) %y = Mul \"second\" (%r, %g) output %y }";

TEST(CompareModels, TellsHowMuchIsLost) {
  const ModelDifference difference =
      compare_models(chain("2"), chain("3"), {{"x", Tensor::from<float>({2, 3}, {0, 0, 0, 0, 0, 1})}}, {});
  const OutputDifference& scaled = difference.values[0].difference;  // 2 and 3 in one element
  EXPECT_TRUE(scaled.has_ratios);
  EXPECT_NEAR(scaled.snr_db, 10 * std::log10(4.0), 1e-9);
  EXPECT_EQ(scaled.cosine, 1);
  const OutputDifference& moved = difference.values[1].difference;  // (1, 1, 1, 1, 1, 3) and (1, 1, 1, 1, 1, 4)
  EXPECT_NEAR(moved.cosine, 17 / std::sqrt(14.0 * 21.0), 1e-9);
  const OutputDifference same =
      output_differences({{"z", Tensor::from<float>({2}, {0, 0})}}, {{"z", Tensor::from<float>({2}, {0, 0})}})[0];
  EXPECT_EQ(same.cosine, 1);
  EXPECT_EQ(same.snr_db, std::numeric_limits<double>::infinity());
}

TEST(CompareModels, ComparesRoundedValuesWithThoseTheyCameFrom) {
  // As a quantiser does that lets the bounds of rounding do what Relu did: `r` is what the product computes, below 0
  // too.
  const Model other = model(
      "graph { input %x : f32[2, 3] constant %f = f32[] {-2} constant %g = f32[] {3} constant %s = f32[] {0.5} "
      "constant %z = u8[] {0} %r = Mul (%x, %f)"
      " %q = QuantizeLinear (%r, %s, %z) %d = DequantizeLinear (%q, %s, %z) %y = Mul (%d, %g) output %y }");
  const NamedValues inputs{{"x", Tensor::from<float>({2, 3}, {-1, 1, 2, -2, 0, 3})}};
  const ModelDifference difference = compare_models(model(kReal), other, inputs, {});
  EXPECT_TRUE(difference.same());
  EXPECT_TRUE(difference.quantised);
  EXPECT_EQ(names(difference.values), std::vector<std::string>{"r"});
  EXPECT_EQ(difference.values[0].name_b, "d");
}

TEST(CompareModels, LooksPastTheSuffixesOfQuantisers) {
  const Model integers = model(
      "graph { input %x : f32[2, 3] constant %f = f32[] {-2} constant %g = f32[] {3} constant %s = f32[] {0.5} "
      "constant %z = u8[] {0} %pp = Mul (%x, %f)"
      " %r_quantized = QuantizeLinear (%pp, %s, %z) %flat = Identity (%r_quantized) %d = DequantizeLinear (%flat, %s, "
      "%z) %y = Mul (%d, %g) output %y }");
  const NamedValues inputs{{"x", Tensor::from<float>({2, 3}, {-1, 1, 2, -2, 0, 3})}};
  const ModelDifference difference = compare_models(model(kReal), integers, inputs, {});
  EXPECT_TRUE(difference.same()) << model_difference_text(difference, 0);
  ASSERT_EQ(names(difference.values), std::vector<std::string>{"r"});
  EXPECT_EQ(difference.values[0].name_b, "r_quantized");  // 4 is the integer for 2.0
  const ModelDifference back = compare_models(integers, model(kReal), inputs, {});
  EXPECT_TRUE(back.same());
  EXPECT_EQ(names(back.values), std::vector<std::string>{"r_quantized"});
}

TEST(CompareModels, FollowsIntegersThroughWhatMovesThem) {
  const Model real = model(
      "graph { input %x : f32[1, 2, 2, 2] %p = GlobalAveragePool (%x) %f = Flatten (%p) {axis = 1} %y = Neg (%f) "
      "output %y }");
  const Model integers = model(
      "graph { input %x : f32[1, 2, 2, 2] constant %s = f32[] {0.5} constant %z = u8[] {0} %q = QuantizeLinear (%x, "
      "%s, %z)"
      " %p_quantized = com.microsoft::QLinearGlobalAveragePool (%q, %s, %z, %s, %z) %f_quantized = Flatten "
      "(%p_quantized) {axis = 1}"
      " %d = DequantizeLinear (%f_quantized, %s, %z) %y = Neg (%d) output %y }");
  const ModelDifference difference =
      compare_models(real, integers, {{"x", Tensor::from<float>({1, 2, 2, 2}, {1, 2, 2, 1, 4, 4, 6, 6})}}, {});
  EXPECT_TRUE(difference.same()) << model_difference_text(difference, 0);
  EXPECT_EQ(names(difference.values), (std::vector<std::string>{"p", "f"}));
}

TEST(CompareModels, ComparesWhatIsFusedWithTheValueBehindTheActivation) {
  const std::string begin = "graph { input %x : f32[1, 1, 4] constant %w = f32[1, 1, 1] {-2} constant %g = f32[] {3} ";
  const Model plain = model(begin + "%c = Conv \"conv\" (%x, %w) %r = Relu \"act\" (%c) %y = Mul (%r, %g) output %y }");
  const Model fused =
      model(begin + "%c = com.microsoft::FusedConv (%x, %w) {activation = \"Relu\"} %y = Mul (%c, %g) output %y }");
  const NamedValues inputs{{"x", Tensor::from<float>({1, 1, 4}, {-1, 1, 2, -2})}};
  const ModelDifference difference = compare_models(plain, fused, inputs, {});
  EXPECT_TRUE(difference.same()) << model_difference_text(difference, 0);
  ASSERT_EQ(names(difference.values), std::vector<std::string>{"r"});
  EXPECT_EQ(difference.values[0].name_b, "c");
  const ModelDifference back = compare_models(fused, plain, inputs, {});
  EXPECT_TRUE(back.same());
  ASSERT_EQ(names(back.values), std::vector<std::string>{"c"});
  EXPECT_EQ(back.values[0].name_b, "r");
  // An activation that is simply missing is a difference.
  const Model without = model(begin + "%c = Conv (%x, %w) %y = Mul (%c, %g) output %y }");
  EXPECT_FALSE(compare_models(plain, without, inputs, {}).same());
}

TEST(CompareModels, ListsTheWorstFirst) {
  ModelDifference difference = compare_models(chain("2"), chain("3"), kInputs, {});
  difference.values[0].difference.snr_db = 20;
  difference.values[1].difference.snr_db = 10;
  difference.values[0].difference.cosine = 0.5;
  difference.values[1].difference.cosine = 0.9;
  difference.values[0].difference.largest = 1;
  sort_values(difference, DifferenceOrder::snr);
  EXPECT_EQ(names(difference.values), (std::vector<std::string>{"moved", "scaled"}));
  sort_values(difference, DifferenceOrder::cosine);
  EXPECT_EQ(names(difference.values), (std::vector<std::string>{"scaled", "moved"}));
  sort_values(difference, DifferenceOrder::largest);
  EXPECT_EQ(names(difference.values), (std::vector<std::string>{"moved", "scaled"}));
  sort_values(difference, DifferenceOrder::computed);
  EXPECT_EQ(names(difference.values), (std::vector<std::string>{"scaled", "moved"}));
  difference.values[1].difference.mismatch = "f32[2] and f32[3]";
  sort_values(difference, DifferenceOrder::snr);
  EXPECT_EQ(difference.values[0].difference.name, "moved");
}

TEST(CompareModels, KeepsLinesShort) {
  ModelDifference difference = compare_models(chain("2"), chain("3"), kInputs, {});
  for (ValueComparison* each : {&difference.values[0], &difference.values[1], &difference.outputs[0]}) {
    each->difference.name = each->op = each->name_b = std::string(300, 'n');
    each->name_b[0] = 'm';
    each->difference.largest = each->difference.relative = 1.234567e-300;
  }
  difference.values[1].difference.mismatch = std::string(200, 'x');
  const std::string text = model_difference_text(difference, 0);
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    const std::string row = text.substr(begin, text.find('\n', begin) - begin);
    // Three marks of 3 bytes for a column.
    if (!row.starts_with("the first")) {
      EXPECT_LE(row.size(), 126u) << row;
    }
  }
}

TEST(CompareModels, SetsTwoSettingsSideBySide) {
  ModelDifferenceOptions options;
  options.a.device = "reference";
  options.outputs_only = true;
  const ModelDifference difference = compare_models(chain("2"), chain("2"), kInputs, options);
  EXPECT_TRUE(difference.same());
  EXPECT_TRUE(difference.values.empty());
  EXPECT_EQ(difference.runs, 1);
}

}  // namespace
}  // namespace tessera::report::model_difference_test
