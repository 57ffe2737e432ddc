#include "io/safetensors/json_cursor.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tessera::io {
namespace {

constexpr int kMostNesting = 64;
constexpr std::size_t kMostStringBytes = std::size_t{1} << 20;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void append_utf8(std::string& to, char32_t c) {
  const auto add = [&](char32_t byte) { to += static_cast<char>(byte); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | c >> 6), add(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    add(0xE0 | c >> 12), add(0x80 | (c >> 6 & 0x3F)), add(0x80 | (c & 0x3F));
  } else {
    add(0xF0 | c >> 18), add(0x80 | (c >> 12 & 0x3F)), add(0x80 | (c >> 6 & 0x3F)), add(0x80 | (c & 0x3F));
  }
}

}  // namespace

void JsonCursor::refuse(std::string_view expected) const {
  const std::string found = at_ < text_.size() ? fmt::format("'{}'", text_.substr(at_, 1)) : "its end";
  fail(ErrorKind::invalid_model, "the JSON text has {} at byte {}, expected {}", found, at_, expected);
}

char JsonCursor::next() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonCursor::consume(char wanted) {
  if (next() != wanted || at_ >= text_.size()) return false;
  ++at_;
  return true;
}

void JsonCursor::expect(char wanted) {
  if (!consume(wanted)) refuse(fmt::format("'{}'", wanted));
}

char32_t JsonCursor::hexadecimal() {
  char32_t value = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (is_digit(c)) value = value * 16 + static_cast<char32_t>(c - '0');
    else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
      value = value * 16 + static_cast<char32_t>((c | 32) - 'a' + 10);
    else refuse("four hexadecimal digits");
  }
  return value;
}

std::string JsonCursor::string() {
  if (next() != '"') refuse("a string");
  ++at_;
  std::string result;
  while (true) {
    const std::size_t start = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 32)
      ++at_;
    result.append(text_.substr(start, at_ - start));
    require(result.size() <= kMostStringBytes, ErrorKind::over_budget,
            "a string of the JSON text has more than {} bytes", kMostStringBytes);
    if (at_ >= text_.size() || static_cast<unsigned char>(text_[at_]) < 32) refuse("the rest of a string");
    if (text_[at_++] == '"') return result;
    const char escape = at_ < text_.size() ? text_[at_++] : '\0';
    constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    if (const std::size_t which = kEscapes.find(escape); escape != '\0' && which != std::string_view::npos) {
      result += kMeanings[which];
    } else if (escape == 'u') {
      char32_t c = hexadecimal();
      if (c >= 0xD800 && c < 0xDC00 && text_.substr(at_, 2) == "\\u") {
        at_ += 2;
        const char32_t low = hexadecimal();
        if (low < 0xDC00 || low > 0xDFFF) refuse("the second half of a surrogate pair");
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
      } else if (c >= 0xD800 && c <= 0xDFFF) {
        refuse("a surrogate pair");
      }
      append_utf8(result, c);
    } else {
      refuse("an escape sequence of JSON");
    }
  }
}

std::int64_t JsonCursor::size() {
  if (!is_digit(next())) refuse("a whole number");
  std::int64_t value = 0;
  while (at_ < text_.size() && is_digit(text_[at_])) {
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value))
      refuse("a number up to 2^63 - 1");
    ++at_;
  }
  if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E')) refuse("a whole number");
  return value;
}

void JsonCursor::skip(int nesting) {
  require(nesting <= kMostNesting, ErrorKind::over_budget, "the JSON text is nested more than {} deep", kMostNesting);
  const char c = next();
  if (c == '{') {
    object([&](const std::string&) { skip(nesting + 1); });
  } else if (c == '[') {
    array([&] { skip(nesting + 1); });
  } else if (c == '"') {
    string();
  } else {
    const std::size_t start = at_;
    while (at_ < text_.size() && (is_digit(text_[at_]) || (text_[at_] >= 'a' && text_[at_] <= 'z') ||
                                  std::string_view("+-.E").find(text_[at_]) != std::string_view::npos))
      ++at_;
    const std::string_view word = text_.substr(start, at_ - start);
    const bool number = !word.empty() && (is_digit(word[0]) || word[0] == '-');
    if (!number && word != "true" && word != "false" && word != "null") {
      at_ = start;
      refuse("a value");
    }
  }
}

void JsonCursor::end() {
  if (next() != '\0' || at_ < text_.size()) refuse("its end");
}

}  // namespace tessera::io
