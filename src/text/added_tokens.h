// Tokens that were added to a vocabulary, including special ones like [MASK]. They are matched in the text before it is
// split into words.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_set>
#include <vector>

#include "text/normalizer.h"
#include "text/vocabulary.h"

namespace tessera::text {

// A section of a text that is an added token, or is not (id −1).
struct TextSection {
  std::u32string text;
  std::int64_t id = -1;
  bool begins_text = false;
};

class AddedTokens {
 public:
  // Reads the part "added_tokens" of a tokenizer.json.
  AddedTokens(const nlohmann::json& part, const Normalizer& normalizer);

  // Splits a text into sections. Tokens marked so are matched in the original text, the others in the normalised rest;
  // sections that are not tokens are normalised.
  std::vector<TextSection> sections(const std::u32string& text, const Normalizer& normalizer) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // The number of added tokens that are not in the vocabulary.
  std::int64_t count_outside(const Vocabulary& vocabulary) const;
  bool is_special(std::int64_t id) const { return special_.contains(id); }

 private:
  struct Token {
    std::u32string text;
    std::int64_t id = 0;
    bool single_word = false, takes_left_space = false, takes_right_space = false;
  };
  static std::vector<TextSection> split(const std::vector<TextSection>& sections, const std::vector<Token>& tokens);

  std::vector<Token> in_text_, in_normalised_;  // longest first
  Vocabulary vocabulary_;
  std::unordered_set<std::int64_t> ids_, special_;
};

}  // namespace tessera::text
