// Must-fail tests: the call must throw tessera::Error of a kind with a message.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tessera/error.h"

namespace tessera::test {

// `message` is Error::message(), without the places it passed through.
template <typename Call>
void expect_error(ErrorKind kind, const std::string& message, Call call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_EQ(error.message(), message);
  }
}

// `text` is a part of what(), places included.
template <typename Call>
void expect_error_containing(ErrorKind kind, const std::string& text, Call call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(text));
  }
}

}  // namespace tessera::test
