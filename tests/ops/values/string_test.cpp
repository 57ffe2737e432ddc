#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::string_test {
namespace {

Tensor words(std::initializer_list<std::string> values) {
  return Tensor::from<std::string>({static_cast<std::int64_t>(values.size())}, values);
}

TEST(StringConcat, Broadcasts) {
  EXPECT_TRUE(identical(run_op_tensor({"StringConcat", {words({"a", "b"}), Tensor::scalar<std::string>("!")}}),
                        words({"a!", "b!"})));
}

TEST(StringNormalizer, ChangesCaseAndDropsStopwords) {
  const ir::Attributes upper = {{"case_change_action", std::string("UPPER")},
                                {"stopwords", std::vector<std::string>{"monday"}}};
  EXPECT_TRUE(identical(run_op_tensor({"StringNormalizer", {words({"Monday", "größe", "\xFFx"})}, upper}),
                        words({"GRÖßE", "\xFFX"})));
  EXPECT_TRUE(identical(run_op_tensor({"StringNormalizer", {words({"monday"}).reshaped({1, 1})}, upper}),
                        words({""}).reshaped({1, 1})));
  expect_error(ErrorKind::invalid_model, "case_change_action is 'lower', expected NONE, LOWER or UPPER",
               [] { run_op({"StringNormalizer", {words({"a"})}, {{"case_change_action", std::string("lower")}}}); });
}

TEST(StringSplit, AsPythonDoes) {
  const std::vector<Value> spaces = run_op({"StringSplit", {words({" a  b ", ""})}, {}, 2});
  EXPECT_TRUE(identical(spaces[0].tensor(), words({"a", "b", "", ""}).reshaped({2, 2})));
  EXPECT_TRUE(identical(spaces[1].tensor(), Tensor::from<std::int64_t>({2}, {2, 0})));
  const ir::Attributes once = {{"delimiter", std::string(",")}, {"maxsplit", std::int64_t{1}}};
  EXPECT_TRUE(identical(run_op({"StringSplit", {words({"a,b,c"})}, once, 2})[0].tensor(),
                        words({"a", "b,c"}).reshaped({1, 2})));
}

TEST(RegexFullMatch, MatchesWholeStrings) {
  const ir::Attributes pattern = {{"pattern", std::string("[a-z]+")}};
  EXPECT_TRUE(identical(run_op_tensor({"RegexFullMatch", {words({"abc", "abc1"})}, pattern}),
                        Tensor::from<bool>({2}, {true, false})));
  expect_error(ErrorKind::invalid_model, "pattern '(': missing ): (",
               [] { run_op({"RegexFullMatch", {words({"a"})}, {{"pattern", std::string("(")}}}); });
}

}  // namespace
}  // namespace tessera::test::string_test
