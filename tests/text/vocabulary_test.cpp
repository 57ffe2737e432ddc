#include "text/vocabulary.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/numbers/philox.h"
#include "support/expect_error.h"

namespace tessera::text::vocabulary_test {
namespace {

TEST(Vocabulary, FindsTokensAndNumbersAsMapsDo) {
  base::Philox random(46, 0);
  Vocabulary vocabulary;
  std::map<std::string, std::int64_t> ids;
  std::map<std::int64_t, std::string> tokens;
  // Few different tokens and numbers, so that many are given again.
  for (int i = 0; i < 20000; ++i) {
    const std::string token = std::to_string(random.next_u32() % 9000) + (i % 3 == 0 ? std::string("\0é", 3) : "");
    const std::int64_t id = i % 5 == 0 ? 2147483647 - random.next_u32() % 100 : random.next_u32() % 9000;
    vocabulary.add(token, id);
    ids[token] = id;
    tokens[id] = token;
  }
  EXPECT_EQ(vocabulary.size(), tokens.size());
  for (const auto& [token, id] : ids) EXPECT_EQ(vocabulary.id_of(token), id);
  for (const auto& [id, token] : tokens) EXPECT_EQ(vocabulary.token_of(id), token);
  EXPECT_EQ(vocabulary.id_of("no token"), -1);
  EXPECT_EQ(vocabulary.token_of(9000), "");
  EXPECT_EQ(vocabulary.token_of(-1), "");
  EXPECT_EQ(vocabulary.token_of(std::int64_t{1} << 32), "");
}

TEST(Vocabulary, OfNoTokensFindsNone) {
  const Vocabulary vocabulary;
  EXPECT_EQ(vocabulary.id_of(""), -1);
  EXPECT_EQ(vocabulary.token_of(0), "");
  EXPECT_EQ(vocabulary.size(), 0u);
}

TEST(Vocabulary, RefusesNumbersThatAreNone) {
  Vocabulary vocabulary;
  for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{1} << 31})
    test::expect_error_containing(ErrorKind::invalid_argument, "expected 0 to 2147483647",
                                  [&] { vocabulary.add("a", id); });
}

}  // namespace
}  // namespace tessera::text::vocabulary_test
