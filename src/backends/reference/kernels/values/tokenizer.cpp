#include "ops/values/tokenizer.h"

#include <re2/re2.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "base/error.h"

namespace tessera::backends::reference {
namespace {

using Tokens = std::vector<std::string_view>;

// The length in bytes of the first character of a nonempty text; 0 if it is not UTF-8.
std::size_t character_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (static_cast<unsigned char>(text[i]) >> 6 != 2) return 0;
  }
  return length;
}

// The characters of a text. Throws Error(failed) if it is not UTF-8.
Tokens characters_of(std::string_view text) {
  Tokens characters;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    require(length > 0, ErrorKind::failed, "a text is not UTF-8");
    characters.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return characters;
}

std::unique_ptr<const RE2> expression(std::string_view what, const std::string& text) {
  RE2::Options options;
  options.set_log_errors(false);
  auto made = std::make_unique<const RE2>(text, options);
  require(made->ok(), ErrorKind::invalid_model, "{} '{}': {}", what, text, made->error());
  return made;
}

// Calls body(text before the match, match) for all matches from left to right; returns the text behind the last one. An
// empty match consumes the character behind it, which is part of neither.
template <typename Body>
std::string_view for_each_match(const KernelContext& context, const RE2& pattern, std::string_view text, Body body) {
  std::size_t from = 0;
  re2::StringPiece found;
  const re2::StringPiece whole(text.data(), text.size());
  while (from < text.size() && pattern.Match(whole, from, text.size(), RE2::UNANCHORED, &found, 1)) {
    context.check_stop();
    const auto at = static_cast<std::size_t>(found.data() - text.data());
    if (at == text.size()) break;
    body(text.substr(from, at - from), text.substr(at, found.size()));
    from = at + (found.empty() ? character_length(text.substr(at)) : found.size());
  }
  return text.substr(std::min(from, text.size()));
}

// The rule by which a node splits a text into tokens.
class Rule {
 public:
  explicit Rule(const KernelContext& context)
      : context_(context),
        least_(context.integer("mincharnum")),
        characters_(ops::makes_tokens_of_characters(context)) {
    if (characters_) return;
    if (context.has_attribute("separators")) {
      for (const std::string& each : context.texts("separators")) separators_.push_back(expression("separator", each));
    }
    if (separators_.empty()) token_ = expression("tokenexp", context.text("tokenexp"));
  }

  Tokens tokens_of(std::string_view text) const {
    Tokens characters = characters_of(text);
    if (characters_) return characters;
    Tokens tokens;
    if (token_ != nullptr)
      for_each_match(context_, *token_, text,
                     [&](std::string_view, std::string_view match) { tokens.push_back(match); });
    else tokens.push_back(text);
    for (const std::unique_ptr<const RE2>& separator : separators_) {
      Tokens parts;
      for (const std::string_view piece : tokens) {
        parts.push_back(for_each_match(context_, *separator, piece, [&](std::string_view before, std::string_view) {
          if (!before.empty()) parts.push_back(before);
        }));
        if (parts.back().empty()) parts.pop_back();
      }
      tokens = std::move(parts);
    }
    std::erase_if(tokens, [&](std::string_view token) {
      return token.empty() || static_cast<std::int64_t>(characters_of(token).size()) < least_;
    });
    return tokens;
  }

 private:
  const KernelContext& context_;
  std::int64_t least_;
  bool characters_;
  std::vector<std::unique_ptr<const RE2>> separators_;
  std::unique_ptr<const RE2> token_;
};

}  // namespace

void tokenizer(KernelContext& context) {
  const Tensor& input = context.input(0);
  const Rule rule(context);
  std::vector<Tokens> rows;
  std::size_t most = 0;
  for (const std::string& text : input.values<std::string>()) {
    rows.push_back(rule.tokens_of(text));
    most = std::max(most, rows.back().size());
  }
  const bool mark = context.integer("mark") != 0;
  if (most > 0 && mark) most += 2;
  Shape shape = input.shape();
  shape.push_back(static_cast<std::int64_t>(most));
  std::string* to = context.allocate_output(0, shape).mutable_data<std::string>();
  const std::string& padding = context.text("pad_value");
  for (const Tokens& row : rows) {
    if (most == 0) break;
    std::string* const end = to + most;
    if (mark) *to++ = "\x02";
    to = std::copy(row.begin(), row.end(), to);
    if (mark) *to++ = "\x03";
    to = std::fill_n(to, end - to, padding);
  }
}

}  // namespace tessera::backends::reference
