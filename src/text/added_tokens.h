// Tokens that were added to a vocabulary, special ones like [MASK] among them: they are found in the text as they
// stand, before it is cut into words.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_set>
#include <vector>

#include "text/normalizer.h"
#include "text/vocabulary.h"

namespace tessera::text {

// A stretch of a text that is an added token, or is not (id −1).
struct TextSection {
  std::u32string text;
  std::int64_t id = -1;
  bool begins_text = false;
};

class AddedTokens {
 public:
  // By the part "added_tokens" of a tokenizer.json.
  AddedTokens(const nlohmann::json& part, const Normalizer& normalizer);

  // Sections of the text. Tokens that ask for it are found in the text as it is, the others in what the normalizer
  // makes of the rest; sections that are no token are normalised.
  std::vector<TextSection> sections(const std::u32string& text, const Normalizer& normalizer) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // How many of them are not in a vocabulary.
  std::int64_t count_outside(const Vocabulary& vocabulary) const;
  bool is_special(std::int64_t id) const { return special_.contains(id); }

 private:
  struct Token {
    std::u32string text;
    std::int64_t id = 0;
    bool single_word = false, takes_left_space = false, takes_right_space = false;
  };
  static std::vector<TextSection> split(const std::vector<TextSection>& sections, const std::vector<Token>& tokens);

  std::vector<Token> in_text_, in_normalised_;  // the longest first
  Vocabulary vocabulary_;
  std::unordered_set<std::int64_t> ids_, special_;
};

}  // namespace tessera::text
