// The tokens of a tokenizer and their numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/slot_table.h"

namespace tessera::text {

// Lets maps of strings be searched by views.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Tokens lie one after the other in one string, and are found by tables of their places: a vocabulary of 50,000 tokens
// takes 2 MiB.
class Vocabulary {
 public:
  // A token keeps the number that it was given last, and a number the token. Throws Error(invalid_argument) for a
  // number that is negative or beyond 2³¹ − 1.
  void add(std::string_view token, std::int64_t id);
  std::int64_t id_of(std::string_view token) const;       // −1: there is none
  std::string_view token_of(std::int64_t id) const;       // "": there is none; valid until the next add
  std::size_t size() const { return by_id_.size(); }      // numbers that have a token
  std::size_t longest_bytes() const { return longest_; }  // of all tokens

 private:
  struct Token {
    std::size_t begin;  // in texts_
    std::uint32_t bytes;
    std::int32_t id;
  };

  std::string_view text_of(std::uint32_t token) const {
    return std::string_view(texts_).substr(tokens_[token].begin, tokens_[token].bytes);
  }

  std::string texts_;
  std::vector<Token> tokens_;
  SlotTable by_text_, by_id_;  // of places in tokens_
  std::size_t longest_ = 0;
};

}  // namespace tessera::text
