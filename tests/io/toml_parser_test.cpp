#include "io/toml_parser.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace tessera::test::toml_parser_test {
namespace {

TEST(ParseToml, ReadsTables) {
  EXPECT_EQ(io::parse_toml("[a]\nb = [[1], [2]]\n", "x.toml")["a"]["b"][1][0].value<int>(), 2);
}

TEST(ParseToml, SaysWhereATextIsWrong) {
  expect_error_containing(ErrorKind::invalid_argument, "x.toml is no TOML: line 2, column ",
                          [] { io::parse_toml("a = 1\nb = ]\n", "x.toml"); });
}

// Texts for which toml++ has an assertion and no error.
TEST(ParseToml, RefusesHeadersWithoutAName) {
  for (const char* text : {"[=]\n",
                           "[\x01"
                           "a]\n",
                           "[#\n", "[[=]]\n"})
    expect_error_containing(ErrorKind::invalid_argument, "x.toml is no TOML", [&] { io::parse_toml(text, "x.toml"); });
}

// toml++ takes it for granted in these places that the next character is no letter outside ASCII.
TEST(ParseToml, RefusesLettersOutsideTexts) {
  for (const char* text : {"a = 1\u0272b\n", "a = \u00E9\n", "\u00E9 = 1\n", "a = 1 \uFE0F\n", "[a\u0272]\n"})
    expect_error_containing(ErrorKind::invalid_argument, "x.toml is no TOML", [&] { io::parse_toml(text, "x.toml"); });
  EXPECT_EQ(io::parse_toml("a = '\u00E9'  # \u0272\n", "x.toml")["a"].value<std::string>(), "\u00E9");
}

}  // namespace
}  // namespace tessera::test::toml_parser_test
