#include "report/inspect/model_info.h"

#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::report::model_info_test {
namespace {

Model model_of(const std::string& text) {
  return Model(std::make_shared<const ir::Graph>(test::parsed(text)));
}

TEST(ModelInfo, CountsSubgraphsAndWork) {
  const ModelInfo info = describe_model(model_of(
      "graph { input %c : bool[] input %x : f32[n, 3] constant %w = f32[3, 2] {1, 2, 3, 4, 5, 6} %y = MatMul (%x, %w) "
      "%o = If (%c) captures (%y) {else_branch = graph { input %t : f32[n, 2] %r = Neg (%t) output %r }, then_branch = "
      "graph { input %t : f32[n, 2] %r = Exp (%t) output %r }} output %o }"));
  EXPECT_EQ(info.nodes, 4);
  EXPECT_EQ(info.operator_counts,
            (std::map<std::string, std::int64_t>{{"Exp", 1}, {"If", 1}, {"MatMul", 1}, {"Neg", 1}}));
  EXPECT_EQ(info.symbols, std::vector<std::string>{"n"});
  EXPECT_EQ(info.parameters, 6);
  EXPECT_EQ(info.operations, 12);
  EXPECT_TRUE(info.why_no_work.empty());
}

TEST(ModelInfo, CountsAModelForSizesThatItAccepts) {
  const std::string text =
      "graph { input %x : f32[1, 1, n] constant %w = f32[1, 1, 3] {1, 2, 3} %y = Conv (%x, %w) output %y }";
  const ModelInfo info = describe_model(model_of(text));
  EXPECT_EQ(info.assumption, "assuming n=128; change with --dim NAME=N");
  EXPECT_EQ(describe_model(model_of(text).with_dims({{"n", 5}})).operations, 18);
}

TEST(ModelInfo, AModelThatAcceptsNoSizesIsDescribed) {
  const std::string text =
      "graph { input %x : f32[n, m] constant %s = i64[2] {-1, 4099} %y = Reshape (%x, %s) output %y }";
  const ModelInfo info = describe_model(model_of(text));
  EXPECT_EQ(info.nodes, 1);
  EXPECT_EQ(info.operations, 0);
  EXPECT_NE(info.why_no_work.find("fix its dimensions with --dim NAME=N"), std::string::npos) << info.why_no_work;
  EXPECT_NE(model_info_json(model_of(text), info, "m").find("why_no_work"), std::string::npos);
  EXPECT_EQ(describe_model(model_of(text).with_dims({{"n", 1}, {"m", 4099}})).why_no_work, "");
}

TEST(ModelInfo, CountsQuantisedWeightsAsParameters) {
  const ModelInfo info =
      describe_model(model_of("graph { input %x : f32[2, 3] constant %q = i8[3, 2] {1, 2, 3, 4, 5, 6} constant %scale "
                              "= f32[] {0.5} constant %zero = i8[] {0} "
                              "%w = DequantizeLinear (%q, %scale, %zero) %y = MatMul (%x, %w) constant %shape = i64[2] "
                              "{1, 4} %z = Reshape (%y, %shape) output %z }"));
  EXPECT_EQ(info.parameters, 7);  // six weights and the scale, not the shape
}

}  // namespace
}  // namespace tessera::report::model_info_test
