// Characters and words of the text form (see text.h), with positions for error messages.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace tessera::ir {

// Whether `text` stands as a value's, operator's or attribute's name without quotes.
bool is_plain_word(std::string_view text);
// Whether `text` stands as the name of a dimension without quotes.
bool is_plain_dim_name(std::string_view text);
// The text in quotes, with control characters, quotes, backslashes and bytes that are not UTF-8 escaped.
std::string quoted(std::string_view text);

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Each skips spaces and comments first.
  bool at_end();
  char peek();  // '\0' at the end
  bool accept(char symbol);
  bool accept_text(std::string_view symbol);  // these characters, no spaces inside
  bool accept_word(std::string_view word);    // as a whole word
  void expect(char symbol, std::string_view purpose);
  std::string_view peek_word();  // empty when none stands here
  std::string_view word(std::string_view purpose);
  std::string string(std::string_view purpose);
  std::string word_or_string(std::string_view purpose);
  // The characters of a number, inf, nan or nan(0x…), not yet converted.
  std::string_view number();

  // Throws Error(invalid_model) "line 3, column 7: …" for the place of the next token.
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
    fail_here(fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_expected(std::string_view expected);

 private:
  void skip_space();
  [[noreturn]] void fail_here(const std::string& message);
  std::string found() const;
  void read_escape(std::string& result);

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace tessera::ir
