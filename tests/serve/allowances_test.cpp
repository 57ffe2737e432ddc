#include "serve/limits/allowances.h"

#include <gtest/gtest.h>

#include "serve/protocol/failure.h"

namespace tessera::serve::allowances_test {
namespace {

void expect_limited(Allowances& allowances, const std::string& caller, const AllowanceRule& rule,
                    const std::string& message) {
  try {
    allowances.begin(caller, rule, "key 'a'");
    FAIL() << "it was allowed";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.reason(), Reason::rate_limited);
    EXPECT_GT(failure.retry_after_s(), 0);
    EXPECT_NE(std::string(failure.what()).find(message), std::string::npos) << failure.what();
  }
}

TEST(Allowances, BoundRequestsInProgressUntilTheirTicketGoes) {
  Allowances allowances;
  const AllowanceRule rule{0, 2};
  Allowances::Ticket first = allowances.begin("a", rule, "key 'a'");
  const Allowances::Ticket second = allowances.begin("a", rule, "key 'a'");
  expect_limited(allowances, "a", rule, "key 'a' has 2 requests in progress");
  const Allowances::Ticket of_another = allowances.begin("b", rule, "key 'b'");
  EXPECT_THROW(allowances.check("a", rule, "key 'a'"), Failure);
  first.reset();
  allowances.check("a", rule, "key 'a'");  // counts nothing
  const Allowances::Ticket third = allowances.begin("a", rule, "key 'a'");
  expect_limited(allowances, "a", rule, "requests in progress");
  EXPECT_EQ(allowances.refused(true), (std::map<std::string, std::uint64_t>{{"a", 3}}));
}

TEST(Allowances, BoundRequestsOfASecond) {
  Allowances allowances;
  const AllowanceRule rule{3, 0};
  for (int i = 0; i < 3; ++i) {
    allowances.check("a", rule, "key 'a'");
    allowances.begin("a", rule, "key 'a'");
  }
  expect_limited(allowances, "a", rule, "key 'a' has used up its 3 requests a second");
  allowances.begin("b", rule, "key 'b'");
}

TEST(Allowances, TicketsMayOutliveThem) {
  auto allowances = std::make_unique<Allowances>();
  Allowances::Ticket ticket = allowances->begin("a", {0, 1}, "key 'a'");
  allowances.reset();
  ticket.reset();
}

TEST(Allowances, ForgetNobodyWhoAsksNow) {
  Allowances allowances;
  const AllowanceRule rule{1, 0};
  for (int i = 0; i < (1 << 14); ++i) allowances.begin(std::to_string(i), rule, "this address");
  expect_limited(allowances, "0", rule, "used up");
  expect_limited(allowances, "one more", rule, "one of too many callers");
  EXPECT_LE(allowances.refused(true).size(), 256u);
}

TEST(Allowances, WithoutARuleCountNothing) {
  Allowances allowances;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(allowances.begin("a", {}, "key 'a'"), nullptr);
  EXPECT_TRUE(allowances.refused(true).empty());
}

}  // namespace
}  // namespace tessera::serve::allowances_test
