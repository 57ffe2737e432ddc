#include "text/template/template_lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "text/unicode.h"

namespace tessera::text {
namespace {

constexpr std::array<std::string_view, 27> kSigns{"//", "**", "==", "!=", ">=", "<=", "+", "-", "*",
                                                  "/",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                  ">",  "<",  "=",  ".",  ":",  "|",  ",", ";", "!"};

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Every line end as \n, and none at the end of the text.
std::string with_plain_lines(std::string_view source) {
  std::string result;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    result.push_back(source[i] == '\r' ? '\n' : source[i]);
  }
  if (result.ends_with('\n')) result.pop_back();
  return result;
}

class TemplateLexer {
 public:
  explicit TemplateLexer(std::string_view source) : source_(with_plain_lines(source)) {}

  std::vector<TemplateToken> run() {
    while (at_ < source_.size()) lex_data();
    add(TemplateToken::Kind::end);
    return std::move(tokens_);
  }

 private:
  using Kind = TemplateToken::Kind;

  [[noreturn]] void fail_here(const std::string& reason) const {
    Error error(ErrorKind::invalid_model, reason);
    error.add_context(template_place(line_));
    throw error;
  }

  TemplateToken& add(Kind kind, std::string text = {}) {
    tokens_.push_back({kind, line_, std::move(text)});
    return tokens_.back();
  }

  void advance(std::size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + count), '\n'));
    at_ += count;
  }

  bool has(std::string_view text) const { return std::string_view(source_).substr(at_).starts_with(text); }

  void skip_space() {
    std::size_t count = 0;
    while (at_ + count < source_.size() && is_space(source_[at_ + count])) ++count;
    advance(count);
  }

  // The text up to the next tag, then the tag.
  void lex_data() {
    std::size_t open = at_;
    while (true) {
      open = source_.find('{', open);
      if (open == source_.npos || open + 1 == source_.size()) break;
      const char next = source_[open + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++open;
    }
    const bool at_end = open == source_.npos || open + 1 == source_.size();
    std::string data = source_.substr(at_, at_end ? std::string::npos : open - at_);
    if (at_end) {
      if (!data.empty()) add(Kind::data, data);
      advance(source_.size() - at_);
      return;
    }
    const char kind = source_[open + 1];
    const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
    const std::size_t whole = data.size();
    if (sign == '-') {
      while (!data.empty() && is_space(data.back())) data.pop_back();
    } else if (sign != '+' && kind != '{') {
      // White space between the begin of a line and a block belongs to the block.
      std::size_t begin = data.size();
      while (begin > 0 && is_space(data[begin - 1]) && data[begin - 1] != '\n') --begin;
      if (begin > 0 ? data[begin - 1] == '\n' : begins_line_) data.resize(begin);
    }
    if (!data.empty()) add(Kind::data, data);
    advance(whole);
    advance(sign == '-' || sign == '+' ? 3 : 2);
    if (kind == '#') lex_comment();
    else if (kind == '%' && begins_raw()) lex_raw();
    else if (kind == '%') lex_tag(Kind::begin_block, Kind::end_block, "%}");
    else lex_tag(Kind::begin_output, Kind::end_output, "}}");
  }

  // Behind the sign of white space of a tag's end: a block takes one line end.
  void end_tag(char sign, bool is_block) {
    const std::size_t before = at_;
    if (sign == '-') skip_space();
    else if (sign != '+' && is_block && has("\n")) advance(1);
    begins_line_ = at_ > before && source_[at_ - 1] == '\n';
  }

  void lex_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == source_.npos) fail_here("a comment has no end, expected '#}'");
    const char sign = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+') ? source_[end - 1] : '\0';
    advance(end + 2 - at_);
    end_tag(sign, true);
  }

  bool begins_raw() const {
    std::size_t next = at_;
    while (next < source_.size() && is_space(source_[next])) ++next;
    if (std::string_view(source_).substr(next, 3) != "raw") return false;
    next += 3;
    while (next < source_.size() && is_space(source_[next])) ++next;
    return next < source_.size() && (source_[next] == '%' || source_[next] == '-');
  }

  void lex_raw() {
    const std::size_t close = source_.find("%}", at_);
    if (close == source_.npos) fail_here("the tag raw has no end");
    const char sign = source_[close - 1] == '-' ? '-' : '\0';
    advance(close + 2 - at_);
    end_tag(sign, true);
    for (std::size_t end = source_.find("{%", at_); end != source_.npos; end = source_.find("{%", end + 2)) {
      std::size_t name = end + 2;
      const char before = name < source_.size() ? source_[name] : '\0';
      if (before == '-' || before == '+') ++name;
      while (name < source_.size() && is_space(source_[name])) ++name;
      if (std::string_view(source_).substr(name, 6) != "endraw") continue;
      const std::size_t last = source_.find("%}", name);
      if (last == source_.npos) break;
      std::string data = source_.substr(at_, end - at_);
      if (before == '-')
        while (!data.empty() && is_space(data.back())) data.pop_back();
      if (!data.empty()) add(Kind::data, data);
      const char after = source_[last - 1];
      advance(last + 2 - at_);
      end_tag(after == '-' || after == '+' ? after : '\0', true);
      return;
    }
    fail_here("the block raw has no endraw");
  }

  void lex_tag(Kind begin, Kind end, std::string_view close) {
    add(begin);
    std::string open;  // brackets
    while (true) {
      skip_space();
      if (at_ == source_.size()) fail_here(fmt::format("a tag has no end, expected '{}'", close));
      if (open.empty()) {
        const char sign = source_[at_];
        const bool has_sign = sign == '-' || (sign == '+' && begin == Kind::begin_block);
        if (std::string_view(source_).substr(at_ + (has_sign ? 1 : 0)).starts_with(close)) {
          add(end);
          advance(close.size() + (has_sign ? 1 : 0));
          end_tag(has_sign ? sign : '\0', begin == Kind::begin_block);
          return;
        }
      }
      const char c = source_[at_];
      if (begins_name(c)) lex_name();
      else if (is_digit(c)) lex_number();
      else if (c == '\'' || c == '"') lex_text(c);
      else lex_sign(open);
    }
  }

  void lex_name() {
    std::size_t end = at_;
    while (end < source_.size() && (begins_name(source_[end]) || is_digit(source_[end]))) ++end;
    add(Kind::name, source_.substr(at_, end - at_));
    advance(end - at_);
  }

  void lex_number() {
    std::size_t end = at_;
    std::string digits;
    const auto take = [&] {
      while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) {
        if (source_[end] != '_') digits.push_back(source_[end]);
        ++end;
      }
    };
    take();
    bool is_whole = true;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      digits.push_back(source_[end++]);
      take();
      is_whole = false;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      std::size_t next = end + 1;
      if (next < source_.size() && (source_[next] == '+' || source_[next] == '-')) ++next;
      if (next < source_.size() && is_digit(source_[next])) {
        digits.append(source_, end, next - end);
        end = next;
        take();
        is_whole = false;
      }
    }
    TemplateToken& token = add(is_whole ? Kind::integer : Kind::number, digits);
    const char *first = digits.data(), *last = first + digits.size();
    const auto result =
        is_whole ? std::from_chars(first, last, token.integer) : std::from_chars(first, last, token.number);
    if (result.ec != std::errc() || result.ptr != last) fail_here(fmt::format("the number {} is too large", digits));
    advance(end - at_);
  }

  void lex_text(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_here("a text constant has no end");
    add(Kind::text, unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    advance(end + 1 - at_);
  }

  std::string unescaped(std::string_view text) const {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 == text.size()) {
        result.push_back(text[i]);
        continue;
      }
      constexpr std::string_view kNames = "ntr\\'\"abfv", kCharacters = "\n\t\r\\'\"\a\b\f\v";
      const char name = text[++i];
      const std::size_t digits = name == 'x' ? 2 : name == 'u' ? 4 : name == 'U' ? 8 : 0;
      if (const std::size_t place = kNames.find(name); place != kNames.npos) result.push_back(kCharacters[place]);
      else if (digits > 0) result += character_of(text, i, digits);
      else if (name >= '0' && name <= '7') {
        unsigned value = 0;
        std::size_t count = 0;
        for (; count < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++count, ++i)
          value = value * 8 + static_cast<unsigned>(text[i] - '0');
        --i;
        append_utf8(result, value);
      } else if (name != '\n') {
        if (name == 'N') fail_here("characters by name (\\N) are not supported in text constants");
        result.push_back('\\');
        result.push_back(name);
      }
    }
    return result;
  }

  // The character whose number follows text[at], which is moved to its last digit.
  std::string character_of(std::string_view text, std::size_t& at, std::size_t digits) const {
    const auto number = [&](std::size_t first, std::size_t count) {
      unsigned value = 0;
      const std::string_view part = text.substr(std::min(first, text.size()), count);
      const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), value, 16);
      if (code != std::errc() || part.size() != count || end != part.data() + count)
        fail_here("a text constant has a wrong number of a character");
      return value;
    };
    unsigned value = number(at + 1, digits);
    at += digits;
    if (value >= 0xD800 && value < 0xDC00 && text.substr(at + 1).starts_with("\\u")) {
      const unsigned low = number(at + 3, 4);
      if (low >= 0xDC00 && low < 0xE000) {
        value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
        at += 6;
      }
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      fail_here("a text constant has a number that is no character");
    std::string result;
    append_utf8(result, value);
    return result;
  }

  void lex_sign(std::string& open) {
    for (const std::string_view sign : kSigns) {
      if (!has(sign)) continue;
      const char c = sign[0];
      if (c == '(' || c == '[' || c == '{') open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
      if (c == ')' || c == ']' || c == '}') {
        if (open.empty() || open.back() != c) fail_here(fmt::format("unexpected '{}'", c));
        open.pop_back();
      }
      add(Kind::sign, std::string(sign));
      advance(sign.size());
      return;
    }
    fail_here(fmt::format("unexpected character '{}'", source_.substr(at_, 1)));
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool begins_line_ = true;  // the text that follows begins a line
  std::vector<TemplateToken> tokens_;
};

}  // namespace

std::vector<TemplateToken> lex_template(std::string_view source) {
  return TemplateLexer(source).run();
}

std::string template_place(int line) {
  return fmt::format("line {} of the chat template", line);
}

}  // namespace tessera::text
