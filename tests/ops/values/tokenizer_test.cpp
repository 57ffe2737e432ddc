#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::tokenizer_test {
namespace {

using Texts = std::vector<std::string>;

Tensor texts(const Shape& shape, const Texts& values) {
  return Tensor::from<std::string>(shape, std::span<const std::string>(values));
}

ir::Attributes separated(const Texts& separators, std::int64_t least = 1, std::int64_t mark = 0) {
  return {{"mark", mark}, {"mincharnum", least}, {"pad_value", std::string("#")}, {"separators", separators}};
}
ir::Attributes matching(const std::string& expression, std::int64_t least = 1) {
  return {{"mark", std::int64_t{0}}, {"mincharnum", least}, {"pad_value", std::string("#")}, {"tokenexp", expression}};
}

Tensor tokens(const Shape& shape, const Texts& values, const ir::Attributes& how) {
  return run_op_tensor({"com.microsoft::Tokenizer", {texts(shape, values)}, how});
}

TEST(Tokenizer, CutsAtSeparatorsInTheirOrder) {
  EXPECT_TRUE(identical(tokens({2}, {"Hello World", "I love tea !"}, separated({" "})),
                        texts({2, 4}, {"Hello", "World", "#", "#", "I", "love", "tea", "!"})));
  EXPECT_TRUE(identical(tokens({1}, {"abXYcd"}, separated({"XY", "bX"})), texts({1, 2}, {"ab", "cd"})));
  EXPECT_TRUE(identical(tokens({1}, {"abXYcd"}, separated({"bX", "XY"})), texts({1, 2}, {"a", "Ycd"})));
  EXPECT_TRUE(identical(tokens({1, 2}, {"a1b22c", ""}, separated({"[0-9]+"})),
                        texts({1, 2, 3}, {"a", "b", "c", "#", "#", "#"})));
  EXPECT_TRUE(identical(tokens({1}, {"XXab"}, separated({"^X"})), texts({1, 1}, {"Xab"})));
}

TEST(Tokenizer, TakesMatches) {
  EXPECT_TRUE(identical(tokens({2}, {"a1b22c", "--"}, matching("[a-z]+|[0-9]{2}")),
                        texts({2, 4}, {"a", "b", "22", "c", "#", "#", "#", "#"})));
  EXPECT_TRUE(identical(tokens({1}, {"abc de"}, matching("[a-z]+", 3)), texts({1, 1}, {"abc"})));
  EXPECT_TRUE(identical(tokens({1}, {"é\nb"}, matching(".")), texts({1, 3}, {"é", "\n", "b"})));
  EXPECT_TRUE(identical(tokens({1}, {"baab"}, matching("a*")), texts({1, 1}, {"aa"})));
}

TEST(Tokenizer, MarksAndCountsCharacters) {
  EXPECT_TRUE(identical(tokens({2}, {"hé", "w"}, separated({""}, 1, 1)),
                        texts({2, 4}, {"\x02", "h", "é", "\x03", "\x02", "w", "\x03", "#"})));
  EXPECT_TRUE(identical(tokens({1}, {"éb é cde"}, separated({" "}, 2)), texts({1, 2}, {"éb", "cde"})));
  EXPECT_EQ(tokens({1, 2}, {"", " "}, separated({" "}, 1, 1)).shape(), (Shape{1, 2, 0}));
  EXPECT_EQ(tokens({0}, {}, separated({" "})).shape(), (Shape{0, 0}));
}

TEST(Tokenizer, SaysWhatIsWrong) {
  const auto expect_refused = [](ErrorKind kind, const char* message, const ir::Attributes& how,
                                 const std::string& text = "a") {
    expect_error(kind, message, [&] { tokens({1}, {text}, how); });
  };
  expect_refused(ErrorKind::invalid_model, "neither separators nor tokenexp says what a token is", separated({}));
  expect_refused(ErrorKind::invalid_model, "tokenexp is empty", matching(""));
  expect_refused(ErrorKind::invalid_model, "separator '(': missing ): (", separated({"("}));
  expect_refused(ErrorKind::invalid_model, "tokenexp '[': missing ]: [", matching("["));
  expect_refused(ErrorKind::invalid_model, "mincharnum is 0, expected at least 1", separated({" "}, 0));
  expect_refused(ErrorKind::invalid_model, "mincharnum is 2 where every character is a token, expected 1",
                 separated({""}, 2));
  expect_refused(ErrorKind::failed, "a text is not UTF-8", separated({" "}), "a\xFF");
  expect_refused(ErrorKind::failed, "a text is not UTF-8", matching("\\C"), "é");
}

}  // namespace
}  // namespace tessera::test::tokenizer_test
