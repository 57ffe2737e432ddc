#include "tessera/tokenizer.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "tessera/error.h"

namespace tessera::tokenizer_test {
namespace {

constexpr const char* kBert = R"({
  "added_tokens": [{"id": 0, "content": "[PAD]", "special": true}, {"id": 2, "content": "[CLS]", "special": true},
                   {"id": 3, "content": "[SEP]", "special": true}, {"id": 4, "content": "[MASK]", "special": true}],
  "normalizer": {"type": "BertNormalizer", "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
    "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
             {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
             {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
    "special_tokens": {"[CLS]": {"ids": [2]}, "[SEP]": {"ids": [3]}}},
  "decoder": {"type": "WordPiece"},
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3,
    "[MASK]": 4, "hello": 5, "wor": 6, "##ld": 7, "!": 8, "cafe": 9}}
})";

using Ids = std::vector<std::int64_t>;

TEST(Tokenizer, WordPieceIsGreedyAfterNormalisation) {
  const Tokenizer tokenizer = Tokenizer::from_json(kBert);
  const TokenEncoding encoding = tokenizer.encode("Hello, WORLD! caf\u00e9 [MASK]");
  EXPECT_EQ(encoding.ids, (Ids{2, 5, 1, 6, 7, 8, 9, 4, 3}));
  EXPECT_EQ(encoding.special_mask, (Ids{1, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(encoding.tokens[4], "##ld");
  EXPECT_EQ(tokenizer.decode(encoding.ids), "hello [UNK] world! cafe");
  EXPECT_EQ(tokenizer.vocabulary_size(), 10);
}

TEST(Tokenizer, PairsHaveTypes) {
  const TokenEncoding pair = Tokenizer::from_json(kBert).encode_pair("hello", "world");
  EXPECT_EQ(pair.ids, (Ids{2, 5, 3, 6, 7, 3}));
  EXPECT_EQ(pair.type_ids, (Ids{0, 0, 0, 1, 1, 1}));
}

TEST(Tokenizer, BatchesArePaddedAndCut) {
  const Tokenizer tokenizer = Tokenizer::from_json(kBert);
  const std::vector<std::string> texts{"hello", "hello world hello world"};
  const std::vector<TokenEncoding> batch = tokenizer.encode_batch(texts, {.max_length = 5});
  EXPECT_EQ(batch[0].ids, (Ids{2, 5, 3, 0, 0}));
  EXPECT_EQ(batch[0].attention_mask, (Ids{1, 1, 1, 0, 0}));
  EXPECT_EQ(batch[1].ids, (Ids{2, 5, 6, 7, 3}));
}

// Lower ranks are merged first wherever they stand: "lo" before "ow".
TEST(Tokenizer, BytePairsMergeByRank) {
  const Tokenizer tokenizer = Tokenizer::from_json(R"({
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "merges": ["l o", "o w", "lo w", "\u0120 lo"],
              "vocab": {"l": 0, "o": 1, "w": 2, "\u0120": 3, "lo": 4, "ow": 5, "low": 6, "\u0120lo": 7}}})");
  EXPECT_EQ(tokenizer.encode("low low").ids, (Ids{6, 3, 6}));
  EXPECT_EQ(tokenizer.encode("low lo").ids, (Ids{6, 7}));
  EXPECT_EQ(tokenizer.decode(Ids{6, 7}), "low lo");
}

TEST(Tokenizer, UnigramTakesTheLikeliestPieces) {
  const Tokenizer tokenizer = Tokenizer::from_json(R"({
    "pre_tokenizer": {"type": "Metaspace"}, "decoder": {"type": "Metaspace"},
    "model": {"type": "Unigram", "unk_id": 0,
              "vocab": [["<unk>", 0], ["\u2581a", -1], ["b", -1], ["\u2581ab", -3], ["c", -2], ["bc", -4]]}})");
  EXPECT_EQ(tokenizer.encode("ab abc").ids, (Ids{1, 2, 1, 2, 4}));
  EXPECT_EQ(tokenizer.encode("axyb").ids, (Ids{1, 0, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 2, 1, 2, 4}), "ab abc");
}

TEST(Tokenizer, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(Tokenizer::from_json(kBert).encode("hello \xff\xfe").ids, (Ids{2, 5, 3}));
}

TEST(Tokenizer, NonsenseIsRefused) {
  const auto refuses = [](const char* json, ErrorKind kind, const char* message) {
    test::expect_error_containing(kind, message, [&] { Tokenizer::from_json(json); });
  };
  refuses("", ErrorKind::invalid_argument, "this is no tokenizer.json: parse error at line 1, column 1:");
  refuses("{\n  \"model\": x}", ErrorKind::invalid_argument, "parse error at line 2, column 12: ");
  refuses(R"({"model": {"type": 3}})", ErrorKind::invalid_argument, "this is no tokenizer.json: type must be string");
  refuses("[]", ErrorKind::invalid_argument, "holds one object");
  refuses("{}", ErrorKind::invalid_argument, "has no model");
  refuses(R"({"model": {"type": "Magic"}})", ErrorKind::unsupported, "model 'Magic' is not supported");
  refuses(R"({"model": {"type": "WordLevel", "vocab": {"a": -1}}})", ErrorKind::invalid_argument, "the number -1");
  refuses(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}})", ErrorKind::invalid_argument,
          "not all in its vocabulary");
  refuses(R"({"model": {"type": "WordLevel", "vocab": {}}, "normalizer": {"type": "Nfx"}})", ErrorKind::unsupported,
          "normalizer 'Nfx'");
  refuses(R"({"model": {"type": "WordLevel", "vocab": {}},
              "normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}})",
          ErrorKind::invalid_argument, "states a trie of 4294967295 bytes in 4");
  refuses(R"x({"model": {"type": "WordLevel", "vocab": {}},
              "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}})x",
          ErrorKind::invalid_argument, "the regular expression '(' is wrong at byte 1");
}

TEST(Tokenizer, ARegularExpressionThatBacktracksForEverGivesUp) {
  const Tokenizer tokenizer = Tokenizer::from_json(R"x({
    "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "^(a|aa)+$"}, "behavior": "Isolated"},
    "model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0}}})x");
  std::string text(3000, 'a');
  text.push_back('b');
  test::expect_error_containing(ErrorKind::over_budget, "gives up", [&] { tokenizer.encode(text); });
}

}  // namespace
}  // namespace tessera::tokenizer_test
