#include "text/added_tokens.h"

#include <algorithm>

#include "text/json_part.h"
#include "text/unicode.h"

namespace tessera::text {
namespace {

constexpr std::size_t kMostAddedTokens = 100'000;
constexpr std::size_t kMostNodes = std::size_t{1} << 20;  // of the tree, each a character that begins no other token

bool is_word_character(char32_t character) {
  return character == U'_' || is_letter(character) || is_number(character) || is_mark(character);
}

std::vector<AddedToken> read_added_tokens(const nlohmann::json& part) {
  std::vector<AddedToken> tokens;
  if (part.is_null()) return tokens;
  require(part.is_array() && part.size() <= kMostAddedTokens, ErrorKind::invalid_argument,
          "the tokenizer's added_tokens are no list of at most {}", kMostAddedTokens);
  for (const nlohmann::json& entry : part) {
    AddedToken token{.text = entry.at("content").get<std::string>(), .id = whole_number(entry.at("id"))};
    token.special = flag_of(entry, "special", false);
    token.single_word = flag_of(entry, "single_word", false);
    token.takes_left_space = flag_of(entry, "lstrip", false);
    token.takes_right_space = flag_of(entry, "rstrip", false);
    token.normalised = flag_of(entry, "normalized", !token.special);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Whether the characters from `first` to before `last` are whole words.
bool is_apart(const std::u32string& text, std::size_t first, std::size_t last) {
  return (first == 0 || !is_word_character(text[first - 1])) && (last == text.size() || !is_word_character(text[last]));
}

}  // namespace

AddedTokens::AddedTokens(const nlohmann::json& part, const Normalizer& normalizer)
    : AddedTokens(read_added_tokens(part), normalizer) {}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, const Normalizer& normalizer) {
  for (const AddedToken& token : tokens) {
    vocabulary_.add(token.text, token.id);
    ids_.insert(token.id);
    if (token.special) special_.insert(token.id);
    std::u32string text = decode_utf8(token.text);
    if (token.normalised) text = normalizer(text);
    if (!text.empty()) (token.normalised ? in_normalised_ : in_text_).add(text, token);
  }
}

void AddedTokens::Tree::add(const std::u32string& text, const AddedToken& token) {
  std::size_t node = 0;
  for (const char32_t character : text) {
    std::size_t& next = children[(static_cast<std::uint64_t>(node) << 21) | character];
    if (next == 0) {
      require(nodes.size() < kMostNodes, ErrorKind::over_budget,
              "the tokenizer's added tokens have more than {} characters", kMostNodes);
      next = nodes.size();
      const std::size_t characters = nodes[node].characters + 1;
      nodes.push_back({{}, characters});
    }
    node = next;
  }
  nodes[node].tokens.push_back(token);
}

std::size_t AddedTokens::Tree::child(std::size_t node, char32_t character) const {
  const auto found = children.find((static_cast<std::uint64_t>(node) << 21) | character);
  return found == children.end() ? 0 : found->second;
}

std::vector<TextSection> AddedTokens::split(std::vector<TextSection> sections, const Tree& tree,
                                            const SpecialTokens& special) {
  if (tree.children.empty()) return sections;
  std::vector<TextSection> result;
  std::vector<std::size_t> ends;  // nodes where tokens end, of the beginnings of the text at a place
  for (TextSection& section : sections) {
    if (section.id >= 0) {
      result.push_back(std::move(section));
      continue;
    }
    const std::u32string& text = section.text;
    const auto is_literal = [&](std::size_t first, std::size_t last) {
      if (special.literal.empty()) return section.has_literal;
      const auto begin = special.literal.begin();
      return std::find(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last), true) !=
             begin + static_cast<std::ptrdiff_t>(last);
    };
    const auto add_text = [&](std::size_t first, std::size_t last) {
      if (last > first)
        result.push_back(
            {text.substr(first, last - first), -1, section.begins_text && first == 0, is_literal(first, last)});
    };
    const auto fits = [&](const AddedToken& token, std::size_t first, std::size_t last) {
      if (token.special && (!special.recognised || is_literal(first, last))) return false;
      return !token.single_word || is_apart(text, first, last);
    };
    const auto token_at = [&](std::size_t at) -> std::pair<const AddedToken*, std::size_t> {
      ends.clear();
      std::size_t node = 0;
      for (std::size_t i = at; i < text.size() && (node = tree.child(node, text[i])) != 0; ++i)
        if (!tree.nodes[node].tokens.empty()) ends.push_back(node);
      for (auto end = ends.rbegin(); end != ends.rend(); ++end)
        for (const AddedToken& token : tree.nodes[*end].tokens)
          if (fits(token, at, at + tree.nodes[*end].characters)) return {&token, at + tree.nodes[*end].characters};
      return {nullptr, at};
    };
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      auto [token, last] = token_at(at);
      if (token == nullptr) {
        ++at;
        continue;
      }
      std::size_t first = at;
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

std::vector<TextSection> AddedTokens::sections(const std::u32string& text, const Normalizer& normalizer,
                                               const SpecialTokens& special) const {
  const bool has_literal = std::ranges::find(special.literal, true) != special.literal.end();
  std::vector<TextSection> result = split({{text, -1, true, has_literal}}, in_text_, special);
  for (TextSection& section : result)
    if (section.id < 0) section.text = normalizer(std::move(section.text));
  // Normalisation moves characters, so that a section with a literal one is literal as a whole.
  return split(std::move(result), in_normalised_, {special.recognised, {}});
}

std::int64_t AddedTokens::count_outside(const Vocabulary& vocabulary) const {
  return std::ranges::count_if(ids_, [&](std::int64_t id) { return vocabulary.token_of(id).empty(); });
}

}  // namespace tessera::text
