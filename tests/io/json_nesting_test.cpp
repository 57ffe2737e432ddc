#include "io/json_nesting.h"

#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.h"

namespace tessera::io::json_nesting_test {
namespace {

TEST(JsonNesting, CountsListsAndObjects) {
  EXPECT_EQ(json_nesting("", 9), 0);
  EXPECT_EQ(json_nesting("3", 9), 0);
  EXPECT_EQ(json_nesting(R"({"a": [1, [2]], "b": [[3]]})", 9), 3);
  EXPECT_EQ(json_nesting("[[[[", 9), 4);
  EXPECT_EQ(json_nesting("]]][", 9), 1);
  EXPECT_EQ(json_nesting("[[[[", 2), 2);
}

TEST(JsonNesting, LeavesStringsOut) {
  EXPECT_EQ(json_nesting(R"(["[[[", "\"[[", "\\", [1]])", 9), 2);
  EXPECT_EQ(json_nesting(R"(["[[[)", 9), 1);
}

TEST(JsonNesting, RefusesTextsThatAreNestedDeep) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  check_json_nesting(nested(kMostJsonNesting), "config.json");
  test::expect_error(ErrorKind::over_budget, "lists and objects in config.json are nested deeper than 100",
                     [&] { check_json_nesting(nested(kMostJsonNesting + 1), "config.json"); });
}

}  // namespace
}  // namespace tessera::io::json_nesting_test
