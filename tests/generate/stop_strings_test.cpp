#include "generate/stop_strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/error_of.h"

namespace tessera::generate::stop_strings_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The pieces that are shown of an answer's pieces, with those that are held back to its end.
std::vector<std::string> shown(std::vector<std::string> stops, const std::vector<std::string>& pieces) {
  StopStrings strings(std::move(stops));
  std::vector<std::string> result;
  for (const std::string& piece : pieces) result.push_back(strings.add(piece));
  result.push_back(strings.finish());
  return result;
}

TEST(StopStrings, TextPassesWithoutThem) {
  EXPECT_THAT(shown({}, {"ab", "", "c"}), ElementsAre("ab", "", "c", ""));
  EXPECT_THAT(shown({"xyz"}, {"ab", "c"}), ElementsAre("ab", "c", ""));
}

TEST(StopStrings, NoPartOfOneIsShown) {
  EXPECT_THAT(shown({"stop"}, {"a st", "op b", "c"}), ElementsAre("a ", "", "", ""));
  EXPECT_THAT(shown({"\n\n"}, {"line\n", "\nnext"}), ElementsAre("line", "", ""));
  EXPECT_THAT(shown({"stop"}, {"s", "t", "o", "p"}), ElementsAre("", "", "", "", ""));
}

TEST(StopStrings, HeldTextIsShownWhenItIsNone) {
  EXPECT_THAT(shown({"stop"}, {"a st", "ay"}), ElementsAre("a ", "stay", ""));
  EXPECT_THAT(shown({"stop"}, {"a sto"}), ElementsAre("a ", "sto"));
  // The held text itself may go on into another beginning: "aab" after "aa".
  EXPECT_THAT(shown({"aab"}, {"aa", "a", "b"}), ElementsAre("", "a", "", ""));
}

TEST(StopStrings, TheFirstOfSeveralCounts) {
  EXPECT_THAT(shown({"d", "bc"}, {"abcd"}), ElementsAre("a", ""));
  EXPECT_THAT(shown({"abcd", "bc"}, {"xabc"}), ElementsAre("xa", ""));
  StopStrings strings({"end"});
  EXPECT_EQ(strings.add("the end of it"), "the ");
  EXPECT_TRUE(strings.found());
  EXPECT_EQ(strings.add("more"), "");
}

TEST(StopStrings, AreBounded) {
  EXPECT_THAT(test::error_of([] { StopStrings({""}); }), HasSubstr("a stop string has 0 bytes, expected 1 to 4096"));
  EXPECT_THAT(test::error_of([] { StopStrings({std::string(4097, 'a')}); }), HasSubstr("4097 bytes"));
  EXPECT_THAT(test::error_of([] { StopStrings(std::vector<std::string>(65, "a")); }), HasSubstr("65 stop strings"));
}

}  // namespace
}  // namespace tessera::generate::stop_strings_test
