#include "text/added_tokens.h"

#include <algorithm>

#include "text/json_part.h"
#include "text/unicode.h"

namespace tessera::text {
namespace {

constexpr std::size_t kMostAddedTokens = 100'000;

bool is_word_character(char32_t character) {
  return character == U'_' || is_letter(character) || is_number(character) || is_mark(character);
}

}  // namespace

AddedTokens::AddedTokens(const nlohmann::json& part, const Normalizer& normalizer) {
  if (part.is_null()) return;
  require(part.is_array() && part.size() <= kMostAddedTokens, ErrorKind::invalid_argument,
          "the tokenizer's added_tokens are no list of at most {}", kMostAddedTokens);
  for (const nlohmann::json& entry : part) {
    const std::string content = entry.at("content").get<std::string>();
    const auto id = whole_number(entry.at("id"));
    vocabulary_.add(content, id);
    ids_.insert(id);
    const bool special = flag_of(entry, "special", false);
    if (special) special_.insert(id);
    const bool normalised = flag_of(entry, "normalized", !special);
    Token token{decode_utf8(content), id, flag_of(entry, "single_word", false), flag_of(entry, "lstrip", false),
                flag_of(entry, "rstrip", false)};
    if (normalised) token.text = normalizer(token.text);
    if (!token.text.empty()) (normalised ? in_normalised_ : in_text_).push_back(std::move(token));
  }
  for (std::vector<Token>* list : {&in_text_, &in_normalised_})
    std::ranges::stable_sort(*list, [](const Token& a, const Token& b) { return a.text.size() > b.text.size(); });
}

std::vector<TextSection> AddedTokens::split(const std::vector<TextSection>& sections,
                                            const std::vector<Token>& tokens) {
  if (tokens.empty()) return sections;
  std::u32string firsts;  // most characters begin no token
  for (const Token& token : tokens)
    if (firsts.find(token.text.front()) == firsts.npos) firsts.push_back(token.text.front());
  std::vector<TextSection> result;
  for (const TextSection& section : sections) {
    if (section.id >= 0) {
      result.push_back(section);
      continue;
    }
    const std::u32string& text = section.text;
    const auto add_text = [&](std::size_t first, std::size_t last) {
      if (last > first) result.push_back({text.substr(first, last - first), -1, section.begins_text && first == 0});
    };
    const auto fits = [&](const Token& token, std::size_t at) {
      if (text.compare(at, token.text.size(), token.text) != 0) return false;
      const std::size_t end = at + token.text.size();
      return !token.single_word ||
             ((at == 0 || !is_word_character(text[at - 1])) && (end == text.size() || !is_word_character(text[end])));
    };
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      const auto token = firsts.find(text[at]) == firsts.npos
                             ? tokens.end()
                             : std::ranges::find_if(tokens, [&](const Token& each) { return fits(each, at); });
      if (token == tokens.end()) {
        ++at;
        continue;
      }
      std::size_t first = at, last = at + token->text.size();
      while (token->takes_left_space && first > done && is_white_space(text[first - 1])) --first;
      while (token->takes_right_space && last < text.size() && is_white_space(text[last])) ++last;
      add_text(done, first);
      result.push_back({text.substr(first, last - first), token->id});
      done = at = last;
    }
    add_text(done, text.size());
  }
  return result;
}

std::vector<TextSection> AddedTokens::sections(const std::u32string& text, const Normalizer& normalizer) const {
  std::vector<TextSection> result = split({{text, -1, true}}, in_text_);
  for (TextSection& section : result)
    if (section.id < 0) section.text = normalizer(std::move(section.text));
  return split(result, in_normalised_);
}

std::int64_t AddedTokens::count_outside(const Vocabulary& vocabulary) const {
  return std::ranges::count_if(ids_, [&](std::int64_t id) { return vocabulary.token_of(id).empty(); });
}

}  // namespace tessera::text
