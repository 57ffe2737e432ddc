// A search pattern of a tokenizer file: a string or a regular expression.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tessera::text {

// A part of a text, in characters: from the first one to before the second one.
using Span = std::pair<std::size_t, std::size_t>;

class Pattern {
 public:
  // From {"String": …}, {"Regex": …} or a plain string. In expressions, \s is Unicode's white space, as the libraries
  // of tokenizers have it. Throws Error(invalid_argument) for an invalid expression.
  explicit Pattern(const nlohmann::json& json);
  static Pattern regex(const std::string& expression);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  // All matches, without overlap, from left to right. Throws Error(over_budget) where an expression backtracks for too
  // long.
  std::vector<Span> find(std::u32string_view text) const;

 private:
  Pattern() = default;
  struct Regex;
  std::u32string literal_;
  std::unique_ptr<Regex> regex_;  // null: the literal
};

}  // namespace tessera::text
