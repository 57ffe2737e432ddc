// Splits a normalised text into words, which the tokenizer's model then splits into tokens.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tessera::text {

struct Word {
  std::u32string text;
  bool begins_text = false;  // at the beginning of what the caller gave, not behind an added token
};

using PreTokenizer = std::function<std::vector<Word>(std::vector<Word>)>;

// Reads the part "pre_tokenizer" of a tokenizer.json; null leaves the text whole. Throws Error: unsupported for an
// unknown type, invalid_argument for an invalid part.
PreTokenizer make_pre_tokenizer(const nlohmann::json& part, int depth = 0);

// One after the other.
PreTokenizer in_turn(std::vector<PreTokenizer> members);
// Makes each match of a regular expression a word of its own, and each stretch between matches.
PreTokenizer isolate_matches(const std::string& expression);
// Writes the bytes of a word as the characters that stand for them (byte_alphabet.h).
PreTokenizer write_bytes();

}  // namespace tessera::text
