// Models that split a word into tokens of the vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/vocabulary.h"

namespace tessera {
struct TokenizerParts;
}

namespace tessera::text {

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the numbers of the word's tokens. Thread-safe.
  virtual void append_tokens(const std::string& word, std::vector<std::int64_t>& out) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

// Reads the part "model" of a tokenizer.json: WordPiece, BPE, Unigram or WordLevel. Throws Error: unsupported for
// another type, invalid_argument for an invalid part.
std::unique_ptr<TokenModel> make_token_model(const nlohmann::json& part);

// One factory per type.
std::unique_ptr<TokenModel> make_word_pieces(const nlohmann::json& part);
std::unique_ptr<TokenModel> make_word_level(const nlohmann::json& part);
std::unique_ptr<TokenModel> make_byte_pairs(const nlohmann::json& part);
std::unique_ptr<TokenModel> make_unigram(const nlohmann::json& part);

// From the parts of a GGUF file, whose lists have fitting lengths. Throw Error(invalid_model) for parts that contradict
// each other.
std::unique_ptr<TokenModel> make_byte_pairs(const TokenizerParts& parts, bool takes_whole_words, bool falls_back);
std::unique_ptr<TokenModel> make_scored_pairs(const TokenizerParts& parts);
std::unique_ptr<TokenModel> make_unigram(const TokenizerParts& parts);
// BERT's: where a word begins, the file writes "\u2581".
std::unique_ptr<TokenModel> make_word_pieces(const TokenizerParts& parts);

// The kinds of tokens in TokenizerParts::types.
enum class TokenKind : std::int32_t { normal = 1, unknown, control, user_defined, unused, byte };
TokenKind kind_of(const TokenizerParts& parts, std::size_t id);

// Throws Error(invalid_argument): the word has no token, and the vocabulary none for unknown text.
[[noreturn]] void fail_unknown_text(const std::string& word);
// The numbers of the tokens <0x00> to <0xFF>, or none where the vocabulary lacks one of them.
std::vector<std::int64_t> byte_tokens(const Vocabulary& vocabulary);

}  // namespace tessera::text
