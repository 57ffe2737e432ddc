#include "base/log.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/expect_error.h"

namespace tessera::test::log_test {
namespace {

// Collects what is logged while it lives.
struct Collected {
  Collected() {
    set_log_handler([this](LogLevel level, std::string_view message) {
      lines.push_back((level == LogLevel::warning ? "W " : "I ") + std::string(message));
    });
  }
  ~Collected() { set_log_handler({}); }
  std::vector<std::string> lines;
};

TEST(Log, IsSilentUntilSomebodyListens) {
  warn("nobody hears {}", 1);
  Collected collected;
  EXPECT_TRUE(collected.lines.empty());
  warn("{} threads instead of {}", 2, 8);
  inform("input '{}'", "a\x1b[2J");
  EXPECT_EQ(collected.lines, (std::vector<std::string>{"W 2 threads instead of 8", "I input 'a\\x1B[2J'"}));
  set_log_handler({});
  warn("gone");
  EXPECT_EQ(collected.lines.size(), 2U);
}

TEST(Log, AHandlerMayNotReplaceItselfAndHearsNothingOfItsOwn) {
  int calls = 0;
  set_log_handler([&](LogLevel, std::string_view) {
    ++calls;
    warn("nested");
    expect_error(ErrorKind::invalid_argument, "a log handler may not replace the log handler",
                 [] { set_log_handler({}); });
  });
  warn("first");
  set_log_handler({});
  EXPECT_EQ(calls, 1);
}

TEST(Log, WhatAHandlerThrowsEndsThere) {
  int calls = 0;
  set_log_handler([&](LogLevel, std::string_view) {
    ++calls;
    throw std::runtime_error("no");
  });
  EXPECT_NO_THROW(warn("first"));
  EXPECT_NO_THROW(warn("second"));
  set_log_handler({});
  EXPECT_EQ(calls, 2);
}

TEST(Log, MessagesOfManyThreadsComeOneAtATime) {
  Collected collected;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) warn("line {}", i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(collected.lines.size(), 800U);
}

}  // namespace
}  // namespace tessera::test::log_test
