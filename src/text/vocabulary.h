// The tokens of a tokenizer and their numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tessera::text {

// Lets maps of strings be searched by views.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

class Vocabulary {
 public:
  // Throws Error(invalid_argument) for a number that is negative or beyond 2³¹ − 1.
  void add(const std::string& token, std::int64_t id);
  std::int64_t id_of(std::string_view token) const;       // −1: there is none
  std::string_view token_of(std::int64_t id) const;       // "": there is none
  std::size_t size() const { return tokens_.size(); }     // numbers that have a token
  std::size_t longest_bytes() const { return longest_; }  // of all tokens

 private:
  std::unordered_map<std::string, std::int64_t, StringHash, std::equal_to<>> ids_;
  std::unordered_map<std::int64_t, std::string> tokens_;
  std::size_t longest_ = 0;
};

}  // namespace tessera::text
