#include "report/model_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/pass_context.h"

namespace tessera::report::model_difference_test {
namespace {

using test::parsed;
using testing::HasSubstr;

Model model(const std::string& text) { return Model(std::make_shared<const ir::Graph>(parsed(text))); }

// y = Relu(x * factor + shift), by name a chain of three nodes.
Model chain(const std::string& factor, const std::string& last = "Relu") {
  return model("graph { input %x : f32[2, 3] constant %f = f32[] {" + factor + "} constant %s = f32[] {1}"
               " %scaled = Mul \"scale\" (%x, %f) %moved = Add \"shift\" (%scaled, %s) %y = " + last + " \"last\" (%moved) output %y }");
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
  EXPECT_THAT(text, HasSubstr("1 of 1 outputs differ:\n  'y', made by node 'last' (Relu): largest difference 4, 0.444 of the largest value; 2 of 6 elements differ, the first at [1, 1]: 5 and 7\n"));
  EXPECT_THAT(text, HasSubstr("2 of 2 values between differ:\n  'scaled'"));
  EXPECT_THAT(text, HasSubstr("… 1 more (--all lists them)\n"));
}

TEST(CompareModels, StartsAtTheNodeWhereTheFaultIs) {
  const ModelDifference difference = compare_models(chain("-2"), chain("-2", "Neg"), kInputs, {});
  EXPECT_EQ(difference.first()->difference.name, "y");
  EXPECT_TRUE(std::ranges::all_of(difference.values, [](const ValueComparison& each) { return each.difference.identical; }));
}

TEST(CompareModels, ForgivesWhatItIsToldTo) {
  EXPECT_TRUE(compare_models(chain("2"), chain("2.001"), kInputs, {}).same());
  EXPECT_FALSE(compare_models(chain("2"), chain("2.001"), kInputs, {.closeness = {.relative = 1e-5}}).same());
  EXPECT_TRUE(compare_models(chain("2"), chain("3"), kInputs, {.closeness = {.relative = 0, .absolute = 4}}).same());
}

TEST(CompareModels, HandsOutNoMoreThanItMayAtOnce) {
  const ModelDifference one = compare_models(chain("2"), chain("3"), kInputs, {}), several = compare_models(chain("2"), chain("3"), kInputs, {.most_bytes = 24});
  EXPECT_EQ(one.runs, 2);
  EXPECT_EQ(several.runs, 3);
  EXPECT_EQ(names(one.values), names(several.values));
  EXPECT_EQ(several.first()->difference.first_b, 6);
}

TEST(CompareModels, SaysWhenShapesOrTypesDiffer) {
  const Model other = model("graph { input %x : f32[2, 3] constant %two = i64[1] {6} %y = Reshape \"flat\" (%x, %two) output %y }");
  const ModelDifference difference = compare_models(chain("2"), other, kInputs, {});
  EXPECT_EQ(difference.first()->difference.mismatch, "f32[2, 3] and f32[6]");
  EXPECT_EQ(difference.only_in_a, 2);
  EXPECT_EQ(difference.only_in_b, 0);
}

TEST(CompareModels, TakesInputsAndOutputsOfOtherNamesByPosition) {
  const Model other = model("graph { input %in : f32[2, 3] constant %f = f32[] {2} constant %s = f32[] {1} %a = Mul (%in, %f) %b = Add (%a, %s) %out = Relu (%b) output %out }");
  const ModelDifference difference = compare_models(chain("2"), other, kInputs, {});
  EXPECT_TRUE(difference.same());
  EXPECT_EQ(names(difference.outputs), (std::vector<std::string>{"y"}));
  const Model two = model("graph { input %x : f32[2, 3] %a = Neg (%x) %b = Relu (%x) output %a, %b }");
  test::expect_error(ErrorKind::invalid_argument, "A has 1 outputs and B has 2, and not all of A's names are among B's", [&] { compare_models(chain("2"), two, kInputs, {}); });
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
