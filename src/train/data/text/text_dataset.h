// Text as token numbers, for language models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "train/data/dataset.h"

namespace tessera::train {

enum class TokenLevel : std::uint8_t {
  character,  // a UTF-8 code point
  word,       // a run of letters, digits and '_'; any other code point except white space by itself
};

// The most frequent tokens of the training text, after [UNK] (0), [MASK] (1) and [PAD] (2).
class TrainedVocabulary {
 public:
  static constexpr std::int64_t kUnknown = 0, kMask = 1, kPadding = 2;

  // `most` is the number of tokens, including these three. Equally frequent tokens are in the order of their bytes.
  static TrainedVocabulary learn(std::string_view text, TokenLevel level, std::int64_t most);

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  const std::vector<std::string>& tokens() const { return tokens_; }
  TokenLevel level() const { return level_; }
  std::vector<std::int64_t> encode(std::string_view text) const;

 private:
  TokenLevel level_ = TokenLevel::word;
  std::vector<std::string> tokens_;
  std::map<std::string, std::int64_t, std::less<>> numbers_;
};

// The tokens of a text. Bytes that are not valid UTF-8 are tokens by themselves.
std::vector<std::string_view> tokenise(std::string_view text, TokenLevel level);

enum class TextTask : std::uint8_t {
  tokens,      // x i64 [length] alone, for mask_tokens
  next_token,  // x i64 [length], and y i64 [length]: x shifted by one
};

// Consecutive windows of `length` tokens of one text. Throws Error(invalid_argument) if the text is shorter than one
// window.
std::unique_ptr<Dataset> make_text_dataset(std::vector<std::int64_t> tokens, std::int64_t length, TextTask task,
                                           std::string source);

}  // namespace tessera::train
