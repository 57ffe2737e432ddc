// Truncation and padding of encodings.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tessera/tokenizer.h"

namespace tessera::text {

struct Truncation {
  enum class Strategy { longest_first, only_first, only_second };
  std::int64_t max_length = 0;  // special tokens included; 0: any length
  Strategy strategy = Strategy::longest_first;
  bool from_left = false;

  // Shortens the tokens of one or two texts so that, with `added` further tokens, they number at most max_length.
  // Throws Error(invalid_argument) where only one text may be shortened and is too short for it.
  void apply(std::vector<std::vector<std::int64_t>>& texts, std::int64_t added) const;
};

struct Padding {
  std::int64_t fixed_length = 0;  // 0: of the longest encoding of the batch
  std::int64_t multiple_of = 1;
  bool to_left = false;
  std::int64_t id = 0, type = 0;
  std::string token = "[PAD]";

  void apply(std::vector<TokenEncoding>& batch) const;
};

// Read the parts "truncation" and "padding" of a tokenizer.json. Throw Error(invalid_argument) for an invalid part.
Truncation read_truncation(const nlohmann::json& part);
Padding read_padding(const nlohmann::json& part);

}  // namespace tessera::text
