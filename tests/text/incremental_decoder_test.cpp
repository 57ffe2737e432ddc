#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "tessera/tokenizer.h"

namespace tessera::incremental_decoder_test {
namespace {

using Pieces = std::vector<std::string>;

// Tokens <0x00> to <0xFF>, then "▁", "▁a" and "<s>".
Tokenizer sentence_piece() {
  TokenizerParts parts{.model = "llama"};
  for (int byte = 0; byte < 256; ++byte) {
    char token[8];
    std::snprintf(token, sizeof token, "<0x%02X>", byte);
    parts.tokens.emplace_back(token);
  }
  parts.types.assign(256, 6);
  parts.tokens.insert(parts.tokens.end(), {"\u2581", "\u2581a", "<s>"});
  parts.types.insert(parts.types.end(), {1, 1, 3});
  parts.scores.assign(parts.tokens.size(), -1);
  parts.bos = 258;
  return Tokenizer::from_parts(parts);
}

Pieces streamed(IncrementalDecoder& decoder, const std::vector<std::int64_t>& ids) {
  Pieces pieces;
  for (const std::int64_t id : ids) pieces.push_back(decoder.add(id));
  pieces.push_back(decoder.finish());
  return pieces;
}

TEST(IncrementalDecoder, GivesOutWholeCharacters) {
  const Tokenizer tokenizer = sentence_piece();
  IncrementalDecoder decoder(tokenizer);
  EXPECT_EQ(streamed(decoder, {'x', 0xE2, 0x82, 0xAC, '\n'}), (Pieces{"x", "", "", "\u20ac", "\n", ""}));
  // The decoder can be used for another text. The space before a text is left out, and so are control tokens.
  EXPECT_EQ(streamed(decoder, {258, 257, 257}), (Pieces{"", "a", " a", ""}));
  EXPECT_EQ(streamed(decoder, {256, 257}), (Pieces{"", " a", ""}));
}

TEST(IncrementalDecoder, ReplacesWhatIsNoCharacterOnceThatIsCertain) {
  const Tokenizer tokenizer = sentence_piece();
  IncrementalDecoder decoder(tokenizer);
  const std::vector<std::int64_t> ids{0xE2, 0x82, 'x', 0xFF, 0xF0, 0x9F};
  EXPECT_EQ(streamed(decoder, ids), (Pieces{"", "", "\ufffdx", "\ufffd", "", "", "\ufffd"}));
  EXPECT_EQ(tokenizer.decode(ids), "\ufffdx\ufffd\ufffd");
}

TEST(IncrementalDecoder, ContinuesAText) {
  const Tokenizer tokenizer = sentence_piece();
  IncrementalDecoder continuing(tokenizer, true, false);
  EXPECT_EQ(continuing.add(257), " a");
  IncrementalDecoder with_special(tokenizer, false);
  EXPECT_EQ(with_special.add(258), "<s>");
}

// Hugging Face's decoder takes a run of bytes as a whole: where it is no text, each byte is replaced.
TEST(IncrementalDecoder, RunsOfBytesStandTogetherInFilesOfHuggingFace) {
  const Tokenizer tokenizer = Tokenizer::from_json(R"({
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "merges": [], "vocab": {"<0xE2>": 0, "<0x82>": 1, "<0xAC>": 2, "\u2581a": 3}}})");
  IncrementalDecoder decoder(tokenizer);
  EXPECT_EQ(streamed(decoder, {3, 0, 1, 2, 3}), (Pieces{"a", "", "", "", "\u20ac a", ""}));
  EXPECT_EQ(streamed(decoder, {0, 1, 2, 0}), (Pieces{"", "", "", "", "\ufffd\ufffd\ufffd\ufffd"}));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int64_t>{0, 1, 2, 0}), "\ufffd\ufffd\ufffd\ufffd");
}

TEST(IncrementalDecoder, RefusesTokensThatDependOnTheirNeighbours) {
  const Tokenizer tokenizer = Tokenizer::from_json(R"({"decoder": {"type": "WordPiece"},
    "model": {"type": "WordPiece", "unk_token": "u", "vocab": {"u": 0}}})");
  test::expect_error_containing(ErrorKind::unsupported, "depends on the tokens beside them",
                                [&] { IncrementalDecoder decoder(tokenizer); });
}

}  // namespace
}  // namespace tessera::incremental_decoder_test
