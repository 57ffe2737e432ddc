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

}  // namespace tessera::text
