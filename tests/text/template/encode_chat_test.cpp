#include "text/template/encode_chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera::text::encode_chat_test {
namespace {

using testing::ElementsAre;

// A token per byte of "<se>hi", and special ones.
Tokenizer tokenizer(bool adds_bos) {
  TokenizerParts parts;
  parts.model = "llama";
  parts.tokens = {"<s>", "<e>", "<", "s", "e", ">", "h", "i"};
  parts.scores.assign(8, 0);
  parts.types = {3, 3, 1, 1, 1, 1, 1, 1};
  parts.bos = 0;
  parts.eos = 1;
  parts.add_bos = adds_bos;
  parts.add_space_prefix = false;
  return Tokenizer::from_parts(parts);
}

std::vector<std::int64_t> encode(const Tokenizer& tokenizer, const char* source, const std::string& content) {
  nlohmann::ordered_json variables;
  variables["messages"] = {{{"role", "user"}, {"content", content}}};
  return encode_chat(tokenizer, ChatTemplate(source), variables);
}

TEST(EncodeChat, UsersWriteTextAndTemplatesWriteSpecialTokens) {
  constexpr const char* kTemplate = "{% for m in messages %}{{ m.content }}<e>{% endfor %}";
  EXPECT_THAT(encode(tokenizer(false), kTemplate, "hi"), ElementsAre(6, 7, 1));
  EXPECT_THAT(encode(tokenizer(false), kTemplate, "<e>"), ElementsAre(2, 4, 5, 1));
  // A special token that only the user's text and the template's spell together.
  EXPECT_THAT(encode(tokenizer(false), "{% for m in messages %}<{{ m.content }}>{% endfor %}", "e"),
              ElementsAre(2, 4, 5));
  // Through filters and joins.
  EXPECT_THAT(encode(tokenizer(false), "{{ (messages[0].content | trim) + '<e>' }}", " <e> "), ElementsAre(2, 4, 5, 1));
}

TEST(EncodeChat, TheTokenThatBeginsATextComesOnce) {
  for (const char* source : {"<s>{{ messages[0].content }}", "{{ messages[0].content }}"})
    EXPECT_THAT(encode(tokenizer(true), source, "hi"), ElementsAre(0, 6, 7)) << source;
  EXPECT_THAT(encode(tokenizer(true), "{{ messages[0].content }}", "<s>"), ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(encode(tokenizer(false), "{{ messages[0].content }}", "hi"), ElementsAre(6, 7));
}

}  // namespace
}  // namespace tessera::text::encode_chat_test
