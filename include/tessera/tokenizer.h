// Converts text to the token numbers that language models read, and back, as defined by a tokenizer.json of Hugging
// Face's tokenizers library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// One text, or a pair of texts, as tokens. All lists have the same length.
struct TokenEncoding {
  std::vector<std::int64_t> ids;
  std::vector<std::string> tokens;           // the tokens in the vocabulary
  std::vector<std::int64_t> type_ids;        // 0: of the first text, 1: of the second, where the file says so
  std::vector<std::int64_t> attention_mask;  // 0: padding
  std::vector<std::int64_t> special_mask;    // 1: added by the tokenizer ([CLS], padding), not found in the text
};

struct TokenizerOptions {
  bool add_special_tokens = true;
  // Above 0: the most tokens of an encoding, including special ones; longer encodings are truncated as the file says,
  // or at the end. 0: as the file says.
  std::int64_t max_length = 0;
};

// A tokenizer of the models WordPiece, byte-pair encoding, Unigram or WordLevel. Immutable and thread-safe; copies
// share it.
class Tokenizer {
 public:
  // Throws Error: not_found or io for the file, invalid_argument where it is no tokenizer.json, unsupported for parts
  // that Tessera does not know (by name).
  static Tokenizer load(const std::filesystem::path& path);
  static Tokenizer from_json(std::string_view json);

  // Encodes a text. Bytes that are not UTF-8 count as U+FFFD. Throws Error(invalid_argument) where a character is in no
  // token and the vocabulary has no token for unknown ones.
  TokenEncoding encode(std::string_view text, const TokenizerOptions& options = {}) const;
  TokenEncoding encode_pair(std::string_view first, std::string_view second,
                            const TokenizerOptions& options = {}) const;
  // Encodes each text by itself, then pads all to the longest (or as the file says).
  std::vector<TokenEncoding> encode_batch(std::span<const std::string> texts,
                                          const TokenizerOptions& options = {}) const;

  // Pads each encoding to so many tokens, on the side and with the token that the file names.
  void pad(std::vector<TokenEncoding>& encodings, std::int64_t length) const;

  // The text of tokens. Numbers that are not in the vocabulary are left out.
  std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens = true) const;

  std::int64_t vocabulary_size() const;  // added tokens included
  // The number of a token, or −1 if the vocabulary lacks it; the token of a number, or "".
  std::int64_t id_of(std::string_view token) const;
  std::string token_of(std::int64_t id) const;

 private:
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tessera
