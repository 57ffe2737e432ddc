#include "ir/text_scanner.h"

#include <algorithm>

namespace tessera::ir {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
// A colon belongs to a word only between other word characters, so that "%x: f32[]" reads as expected.
bool is_word_character(char c) {
  return is_letter(c) || is_digit(c) || c == '.' || c == '/' || c == '-';
}
bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::size_t word_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    if (is_word_character(text[length])) {
      ++length;
      continue;
    }
    const std::size_t colons = std::min(text.find_first_not_of(':', length), text.size()) - length;
    if (length == 0 || colons == 0 || length + colons == text.size() || !is_word_character(text[length + colons]))
      break;
    length += colons;
  }
  return length;
}

// Bytes of the well-formed UTF-8 character (beyond ASCII) at the start of `text`, or 0. Surrogates and overlong forms
// are left to be escaped only where the lead byte gives them away; exactness does not depend on it.
std::size_t utf8_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : (lead & 0xF0) == 0xE0        ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

bool is_plain_word(std::string_view text) {
  return !text.empty() && text != "none" && word_length(text) == text.size();
}

bool is_plain_dim_name(std::string_view text) {
  return is_plain_word(text) && is_letter(text[0]);
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const std::size_t wide = byte >= 0x80 ? utf8_length(text.substr(i)) : 0;
    if (wide > 0) {
      result += text.substr(i, wide);
      i += wide;
      continue;
    }
    if (c == '"' || c == '\\') result += {'\\', c};
    else if (c == '\n') result += "\\n";
    else if (c == '\t') result += "\\t";
    else if (byte < 0x20 || byte >= 0x7F) result += fmt::format("\\x{:02x}", byte);
    else result += c;
    ++i;
  }
  return result + '"';
}

void Scanner::skip_space() {
  while (position_ < text_.size()) {
    if (is_space(text_[position_])) ++position_;
    else if (text_[position_] == '#') position_ = std::min(text_.find('\n', position_), text_.size());
    else return;
  }
}

bool Scanner::at_end() {
  return peek() == '\0' && position_ >= text_.size();
}

char Scanner::peek() {
  skip_space();
  return position_ < text_.size() ? text_[position_] : '\0';
}

bool Scanner::accept(char symbol) {
  if (at_end() || peek() != symbol) return false;
  ++position_;
  return true;
}

bool Scanner::accept_text(std::string_view symbol) {
  skip_space();
  if (text_.substr(position_, symbol.size()) != symbol) return false;
  position_ += symbol.size();
  return true;
}

bool Scanner::accept_word(std::string_view word) {
  if (peek_word() != word) return false;
  position_ += word.size();
  return true;
}

void Scanner::expect(char symbol, std::string_view purpose) {
  if (!accept(symbol)) fail("expected '{}' {}, but found {}", symbol, purpose, found());
}

std::string_view Scanner::peek_word() {
  skip_space();
  return text_.substr(position_, word_length(text_.substr(position_)));
}

std::string_view Scanner::word(std::string_view purpose) {
  const std::string_view result = peek_word();
  if (result.empty()) fail_expected(purpose);
  position_ += result.size();
  return result;
}

void Scanner::read_escape(std::string& result) {
  const char kind = position_ + 1 < text_.size() ? text_[position_ + 1] : '\0';
  if (kind == 'x' && position_ + 3 < text_.size() && hex_value(text_[position_ + 2]) >= 0 &&
      hex_value(text_[position_ + 3]) >= 0) {
    result += static_cast<char>(hex_value(text_[position_ + 2]) * 16 + hex_value(text_[position_ + 3]));
    position_ += 4;
    return;
  }
  if (kind == 'n') result += '\n';
  else if (kind == 't') result += '\t';
  else if (kind == '"' || kind == '\\') result += kind;
  else fail("unknown escape in a string: \\n \\t \\\" \\\\ and \\xNN are known");
  position_ += 2;
}

std::string Scanner::string(std::string_view purpose) {
  if (peek() != '"') fail_expected(purpose);
  const std::size_t start = position_++;
  std::string result;
  while (position_ < text_.size() && text_[position_] != '"') {
    if (text_[position_] == '\\') read_escape(result);
    else result += text_[position_++];
  }
  if (position_ >= text_.size()) {
    position_ = start;
    fail("a string does not end");
  }
  ++position_;
  return result;
}

std::string Scanner::word_or_string(std::string_view purpose) {
  return peek() == '"' ? string(purpose) : std::string(word(purpose));
}

std::string_view Scanner::number() {
  skip_space();
  const std::size_t start = position_;
  auto here = [&] { return position_ < text_.size() ? text_[position_] : '\0'; };
  if (here() == '-' || here() == '+') ++position_;
  while (is_letter(here()) || is_digit(here()) || here() == '.' ||
         ((here() == '-' || here() == '+') && (text_[position_ - 1] == 'e' || text_[position_ - 1] == 'E'))) {
    ++position_;
  }
  if (text_.substr(start, position_ - start) == "nan" && here() == '(') {
    const std::size_t end = text_.find(')', position_);
    position_ = end == std::string_view::npos ? text_.size() : end + 1;
  }
  const std::string_view result = text_.substr(start, position_ - start);
  position_ = start;
  if (result.empty()) fail_expected("a number");
  position_ = start + result.size();
  return result;
}

void Scanner::fail_expected(std::string_view expected) {
  fail("expected {}, but found {}", expected, found());
}

std::string Scanner::found() const {
  if (position_ >= text_.size()) return "the end of the text";
  constexpr std::size_t kShown = 20;
  const std::size_t end = std::min(text_.find_first_of("\n\r", position_), text_.size());
  const std::string_view shown = text_.substr(position_, std::min(end - position_, kShown));
  return quoted(shown);
}

void Scanner::fail_here(const std::string& message) {
  skip_space();
  const std::string_view before = text_.substr(0, position_);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t last_break = before.rfind('\n');
  const std::size_t column = last_break == std::string_view::npos ? position_ + 1 : position_ - last_break;
  tessera::fail(ErrorKind::invalid_model, "line {}, column {}: {}", line, column, message);
}

}  // namespace tessera::ir
