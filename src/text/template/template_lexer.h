// The tokens of a template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::text {

struct TemplateToken {
  enum class Kind { data, begin_output, end_output, begin_block, end_block, name, integer, number, text, sign, end };
  Kind kind = Kind::end;
  int line = 0;
  std::string text;  // of data, a name, a sign, or a text constant
  std::int64_t integer = 0;
  double number = 0;

  bool is_sign(std::string_view sign) const { return kind == Kind::sign && text == sign; }
  bool is_name(std::string_view name) const { return kind == Kind::name && text == name; }
};

// Ends with a token of the kind end. Throws Error(invalid_model) with the line.
std::vector<TemplateToken> lex_template(std::string_view source);

// Adds the line to an error's places.
std::string template_place(int line);

}  // namespace tessera::text
