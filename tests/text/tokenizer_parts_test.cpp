// Tokenizers of language models, from the parts of a GGUF file.
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "tessera/tokenizer.h"

namespace tessera::tokenizer_parts_test {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

// The 256 bytes, then tokens and merges of "low", a control token and a user-defined one.
TokenizerParts byte_level() {
  TokenizerParts parts{.model = "gpt2", .pre = "qwen2"};
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    const char32_t before = byte < 0x21 ? 0 : byte <= 0xA0 ? 0x21 + (byte - 0x7F) : 0x43;  // of those not printable
    const char32_t character = printable ? byte : 0x100 + (byte < 0x21 ? byte : before);
    std::string token;
    if (character < 0x80) token.push_back(static_cast<char>(character));
    else token = {static_cast<char>(0xC0 | (character >> 6)), static_cast<char>(0x80 | (character & 0x3F))};
    parts.tokens.push_back(token);
  }
  parts.tokens.insert(parts.tokens.end(), {"lo", "low", "\u0120low", "<|im_end|>", "<think>"});
  parts.types.assign(parts.tokens.size(), kNormal);
  parts.types[259] = kControl;
  parts.types[260] = kUserDefined;
  parts.merges = {"l o", "lo w", "\u0120 low"};
  parts.eos = 259;
  return parts;
}

TEST(TokenizerParts, BytesAreJoinedByMerges) {
  const Tokenizer tokenizer = Tokenizer::from_parts(byte_level());
  EXPECT_EQ(tokenizer.encode_ids("low low lo"), (Ids{257, 258, 32, 256}));
  EXPECT_EQ(tokenizer.decode(Ids{257, 258, 0xE2, 0x82, 0xAC}), "low low\u20ac");
  EXPECT_EQ(tokenizer.encode("low").tokens, std::vector<std::string>{"low"});
  EXPECT_EQ(tokenizer.end_of_generation(), Ids{259});
}

TEST(TokenizerParts, SpecialTokensOfUsersAreText) {
  const Tokenizer tokenizer = Tokenizer::from_parts(byte_level());
  EXPECT_EQ(tokenizer.encode_ids("low<|im_end|>"), (Ids{257, 259}));
  const Ids as_text{257, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>'};
  EXPECT_EQ(tokenizer.encode_ids("low<|im_end|>", {.recognize_special = false}), as_text);
  // A user-defined token is no special one.
  EXPECT_EQ(tokenizer.encode_ids("<think>low", {.recognize_special = false}), (Ids{260, 257}));
  // The first token is the user's, the second the template's.
  const std::vector<TextRange> users{{3, 13}};
  Ids expected = as_text;
  expected.push_back(259);
  EXPECT_EQ(tokenizer.encode_ids("low<|im_end|><|im_end|>", {.literal = users}), expected);
  // A token that begins with a user's character is the user's.
  const std::vector<TextRange> begin{{3, 4}};
  EXPECT_EQ(tokenizer.encode_ids("low<|im_end|>", {.literal = begin}), as_text);
  const std::vector<TextRange> beyond{{3, 99}};
  test::expect_error_containing(ErrorKind::invalid_argument, "the literal range from 3 to 99",
                                [&] { tokenizer.encode_ids("low", {.literal = beyond}); });
}

// Two spaces are a token by score, yet the mark of a word takes one of them first.
TokenizerParts sentence_piece() {
  TokenizerParts parts{.model = "llama"};
  parts.tokens = {"<unk>", "<s>", "</s>"};
  parts.types = {kUnknown, kControl, kControl};
  for (int byte = 0; byte < 256; ++byte) {
    char token[8];
    std::snprintf(token, sizeof token, "<0x%02X>", byte);
    parts.tokens.emplace_back(token);
    parts.types.push_back(kByte);
  }
  const std::pair<const char*, float> pieces[]{{"\u2581", -9},    {"a", -8},           {"b", -7},   {"c", -7},
                                               {"ab", -2},        {"bc", -1},          {"abc", -3}, {"\u2581a", -1.5},
                                               {"\u2581abc", -5}, {"\u2581\u2581", -4}};
  parts.scores.assign(parts.tokens.size(), 0);
  for (const auto& [token, score] : pieces) {
    parts.tokens.emplace_back(token);
    parts.types.push_back(kNormal);
    parts.scores.push_back(score);
  }
  parts.bos = 1;
  parts.eos = 2;
  parts.unknown = 0;
  return parts;
}

std::vector<std::string> pieces_of(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, {.add_special_tokens = false}).tokens;
}

TEST(TokenizerParts, NeighboursAreJoinedByScore) {
  const Tokenizer tokenizer = Tokenizer::from_parts(sentence_piece());
  using Pieces = std::vector<std::string>;
  // "bc" has the highest score, then "▁a"; "▁abc" is made of these two.
  EXPECT_EQ(pieces_of(tokenizer, "abc"), Pieces{"\u2581abc"});
  EXPECT_EQ(pieces_of(tokenizer, "bcbc"), (Pieces{"\u2581", "bc", "bc"}));
  EXPECT_EQ(pieces_of(tokenizer, "  a"), (Pieces{"\u2581\u2581", "\u2581a"}));
  EXPECT_EQ(pieces_of(tokenizer, "\u00e9"), (Pieces{"\u2581", "<0xC3>", "<0xA9>"}));
  // Neither what is a byte's token nor a control token arises from text.
  EXPECT_EQ(pieces_of(tokenizer, "<0x41>").size(), 7u);
  EXPECT_EQ(tokenizer.encode_ids("a<s>", {.recognize_special = false}).size(), 1u + 1 + 3);
  EXPECT_EQ(tokenizer.encode_ids("a<s>a"), (Ids{1, 266, 1, 266}));  // each section begins with a space
  EXPECT_EQ(tokenizer.decode(Ids{1, 266, 264}), "abc");
}

TEST(TokenizerParts, UnusedTokensAreDividedAgain) {
  TokenizerParts parts = sentence_piece();
  parts.types[267] = kUnused;
  ASSERT_EQ(parts.tokens[267], "\u2581abc");
  EXPECT_EQ(pieces_of(Tokenizer::from_parts(parts), "abc"), (std::vector<std::string>{"\u2581a", "bc"}));
}

TEST(TokenizerParts, OneTokenBeginsAText) {
  const Tokenizer tokenizer = Tokenizer::from_parts(sentence_piece());
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.encode_ids("<s>a", {.merge_bos = true}), (Ids{1, 266}));
  EXPECT_EQ(tokenizer.encode_ids("a", {.merge_bos = true}), (Ids{1, 266}));
  EXPECT_EQ(tokenizer.encode_ids("<s>a"), (Ids{1, 1, 266}));
  TokenizerParts parts = sentence_piece();
  parts.add_bos = false;
  parts.add_eos = true;
  EXPECT_EQ(Tokenizer::from_parts(parts).encode_ids("a"), (Ids{266, 2}));
}

TEST(TokenizerParts, WordPiecesOfBert) {
  TokenizerParts parts{.model = "bert"};
  parts.tokens = {"[UNK]", "[CLS]", "[SEP]", "\u2581hello", "\u2581wor", "ld", "\u2581!"};
  parts.types = {kControl, kControl, kControl, kNormal, kNormal, kNormal, kNormal};
  parts.unknown = 0;
  parts.cls = 1;
  parts.separator = 2;
  const Tokenizer tokenizer = Tokenizer::from_parts(parts);
  EXPECT_EQ(tokenizer.encode_ids("Hello WORLD! x"), (Ids{1, 3, 4, 5, 6, 0, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 3, 4, 5, 6, 2}), "hello world!");
}

TEST(TokenizerParts, UnigramOfT5) {
  TokenizerParts parts{.model = "t5"};
  parts.tokens = {"<unk>", "</s>", "\u2581a", "b", "\u2581ab", "c", "bc"};
  parts.types = {kUnknown, kControl, kNormal, kNormal, kNormal, kNormal, kNormal};
  parts.scores = {0, 0, -1, -1, -3, -2, -4};
  parts.unknown = 0;
  parts.eos = 1;
  parts.remove_extra_whitespaces = true;
  const Tokenizer tokenizer = Tokenizer::from_parts(parts);
  EXPECT_EQ(tokenizer.encode_ids("  ab  abc "), (Ids{2, 3, 2, 3, 5, 1}));
  EXPECT_EQ(tokenizer.decode(Ids{2, 3, 2, 3, 5, 1}), "ab abc");
}

TEST(TokenizerParts, WhatIsNotKnownIsNamed) {
  TokenizerParts parts = byte_level();
  parts.pre = "no-such-rules";
  test::expect_error_containing(ErrorKind::unsupported, "by the rules 'no-such-rules'",
                                [&] { Tokenizer::from_parts(parts); });
  parts = byte_level();
  parts.model = "rwkv";
  test::expect_error_containing(ErrorKind::unsupported, "model is 'rwkv'", [&] { Tokenizer::from_parts(parts); });
}

TEST(TokenizerParts, ContradictionsAreRefused) {
  const auto refuses = [](const TokenizerParts& parts, const char* message) {
    test::expect_error_containing(ErrorKind::invalid_model, message, [&] { Tokenizer::from_parts(parts); });
  };
  TokenizerParts parts = byte_level();
  parts.types.pop_back();
  refuses(parts, "260 types of tokens for 261 tokens");
  parts = byte_level();
  parts.types[3] = 9;
  refuses(parts, "the type of token 3 is 9");
  parts = byte_level();
  parts.merges = {"low"};
  refuses(parts, "'low' has no two parts");
  parts.merges = {"low er"};
  refuses(parts, "'low' and 'er', which are not all");
  parts.merges.clear();
  refuses(parts, "of which there are none");
  parts = byte_level();
  parts.eos = 1000;
  refuses(parts, "eos token has the number 1000");
  parts = byte_level();
  parts.add_bos = true;
  refuses(parts, "adds a token before each text, but names none");
  parts = sentence_piece();
  parts.scores.pop_back();
  refuses(parts, "268 scores for 269 tokens");
  refuses({.model = "gpt2"}, "has 0 tokens");
}

// One word of a million characters, and as many pairs to join, take time in proportion.
TEST(TokenizerParts, LongTextsTakeLinearTime) {
  const std::string text(1'000'000, 'l');
  EXPECT_EQ(Tokenizer::from_parts(byte_level()).encode_ids(text).size(), text.size());
  const std::string spaces(1'000'000, ' ');  // one match of the rules of splitting
  EXPECT_EQ(Tokenizer::from_parts(byte_level()).encode_ids(spaces).size(), spaces.size());
  std::string pairs;
  for (int i = 0; i < 250'000; ++i) pairs += "abc ";
  EXPECT_EQ(Tokenizer::from_parts(sentence_piece()).encode_ids(pairs).size(), 250'002u);
}

}  // namespace
}  // namespace tessera::tokenizer_parts_test
