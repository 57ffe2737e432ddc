#include "base/error.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera::test::error_test {
namespace {

TEST(Error, TellsThePlacesInnermostFirst) {
  Error error(ErrorKind::invalid_model, "bad axis");
  EXPECT_STREQ(error.what(), "bad axis");
  error.add_context("node 'a'").add_context("file m.onnx");
  EXPECT_STREQ(error.what(), "bad axis (in node 'a', in file m.onnx)");
  EXPECT_EQ(error.message(), "bad axis");
  EXPECT_EQ(error.context().size(), 2U);
}

TEST(Error, KindsHaveExitCodesOfTheirOwn) {
  std::set<int> codes;
  std::set<std::string_view> names;
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::failed); ++kind) {
    codes.insert(exit_code(static_cast<ErrorKind>(kind)));
    names.insert(to_string(static_cast<ErrorKind>(kind)));
  }
  EXPECT_EQ(codes.size(), 8U);
  EXPECT_EQ(names.size(), 8U);
  EXPECT_EQ(*codes.begin(), 2);
}

TEST(Error, RequireThrowsOnlyWhenNeeded) {
  EXPECT_NO_THROW(require(true, ErrorKind::failed, "{}", 1));
  EXPECT_THROW(require(false, ErrorKind::failed, "{}", 1), Error);
}

}  // namespace
}  // namespace tessera::test::error_test
