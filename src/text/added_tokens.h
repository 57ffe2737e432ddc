// Tokens that were added to a vocabulary, including special ones like [MASK]. They are matched in the text before it is
// split into words.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>
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
  bool has_literal = false;  // special tokens are not recognised in some of it
};

struct AddedToken {
  std::string text;
  std::int64_t id = 0;
  bool special = false;
  bool single_word = false;       // it does not match inside a word
  bool takes_left_space = false;  // white space before it belongs to it
  bool takes_right_space = false;
  bool normalised = false;  // it is matched in the normalised text
};

// The recognition of special tokens in a text.
struct SpecialTokens {
  bool recognised = true;
  std::vector<bool> literal;  // one per character: none is recognised there; empty: everywhere
};

class AddedTokens {
 public:
  // Reads the part "added_tokens" of a tokenizer.json.
  AddedTokens(const nlohmann::json& part, const Normalizer& normalizer);
  AddedTokens(const std::vector<AddedToken>& tokens, const Normalizer& normalizer);

  // Splits a text into sections, at each place by the longest token that begins there. Tokens marked so are matched in
  // the original text, the others in the normalised rest; sections that are not tokens are normalised.
  std::vector<TextSection> sections(const std::u32string& text, const Normalizer& normalizer,
                                    const SpecialTokens& special = {}) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // The number of added tokens that are not in the vocabulary.
  std::int64_t count_outside(const Vocabulary& vocabulary) const;
  bool is_special(std::int64_t id) const { return special_.contains(id); }
  bool contains(std::int64_t id) const { return ids_.contains(id); }

 private:
  // The texts of tokens as a tree: a node for each beginning.
  struct Tree {
    struct Node {
      std::vector<AddedToken> tokens;  // whose whole text leads here
      std::size_t characters = 0;
    };
    std::vector<Node> nodes{1};
    std::unordered_map<std::uint64_t, std::size_t> children;  // by node and character

    void add(const std::u32string& text, const AddedToken& token);
    // 0: there is none.
    std::size_t child(std::size_t node, char32_t character) const;
  };
  static std::vector<TextSection> split(std::vector<TextSection> sections, const Tree& tree,
                                        const SpecialTokens& special);

  Tree in_text_, in_normalised_;
  Vocabulary vocabulary_;
  std::unordered_set<std::int64_t> ids_, special_;
};

}  // namespace tessera::text
