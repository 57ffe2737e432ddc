#include "text/pre_tokenizer.h"

#include <memory>
#include <optional>

#include "text/byte_alphabet.h"
#include "text/json_part.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace tessera::text {
namespace {

constexpr const char* kPreTokenizer = "pre_tokenizer";

// GPT-2's words: contractions, letters, numbers and other marks with the space before them, white space.
constexpr const char* kByteLevelWords = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Runs of word characters (Unicode Technical Standard 18, Annex C: letters, marks, digits, connectors and joiners), and
// of other characters but white space.
constexpr const char* kWordsAndMarks = R"([\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{200C}\x{200D}]+|)"
                                       R"([^\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{200C}\x{200D}\s]+)";

// The treatment of the delimiters at which a text is split.
enum class Delimiters { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Delimiters delimiters_of(const std::string& name) {
  if (name == "Removed") return Delimiters::removed;
  if (name == "Isolated") return Delimiters::isolated;
  if (name == "MergedWithPrevious") return Delimiters::merged_with_previous;
  if (name == "MergedWithNext") return Delimiters::merged_with_next;
  if (name == "Contiguous") return Delimiters::contiguous;
  fail(ErrorKind::unsupported, "the tokenizer splits with the behavior '{}', which is not known", name);
}

// A stretch of the text that is a delimiter or not.
struct Stretch {
  Span span;
  bool is_delimiter = false;
};

std::vector<Stretch> stretches_of(std::size_t length, const std::vector<Span>& matches, bool inverted) {
  std::vector<Stretch> result;
  std::size_t done = 0;
  for (const auto& [first, last] : matches) {
    if (first > done) result.push_back({{done, first}, inverted});
    result.push_back({{first, last}, !inverted});
    done = last;
  }
  if (done < length) result.push_back({{done, length}, inverted});
  return result;
}

std::vector<Span> joined(const std::vector<Stretch>& stretches, Delimiters delimiters) {
  std::vector<Span> result;
  bool before_is_delimiter = false;
  for (const auto& [span, is_delimiter] : stretches) {
    bool extends = false;
    switch (delimiters) {
      case Delimiters::removed:
        if (is_delimiter) continue;
        break;
      case Delimiters::isolated:
        break;
      case Delimiters::merged_with_previous:
        extends = is_delimiter && !before_is_delimiter;
        break;
      case Delimiters::merged_with_next:
        extends = before_is_delimiter && !is_delimiter;
        break;
      case Delimiters::contiguous:
        extends = is_delimiter == before_is_delimiter;
        break;
    }
    if (extends && !result.empty()) result.back().second = span.second;
    else result.push_back(span);
    before_is_delimiter = is_delimiter;
  }
  return result;
}

void append_parts(std::vector<Word>& out, const Word& word, const std::vector<Span>& spans) {
  for (const auto& [first, last] : spans)
    if (last > first) out.push_back({word.text.substr(first, last - first), word.begins_text && first == 0});
}

PreTokenizer split(std::shared_ptr<const Pattern> pattern, Delimiters delimiters, bool inverted) {
  return [=](const std::vector<Word>& words) {
    std::vector<Word> result;
    for (const Word& word : words)
      append_parts(result, word,
                   joined(stretches_of(word.text.size(), pattern->find(word.text), inverted), delimiters));
    return result;
  };
}

// Splits at characters of a kind, each a delimiter of its own.
template <typename IsDelimiter>
PreTokenizer split_at(IsDelimiter is_delimiter, Delimiters delimiters) {
  return [=](const std::vector<Word>& words) {
    std::vector<Word> result;
    for (const Word& word : words) {
      std::vector<Span> matches;
      for (std::size_t i = 0; i < word.text.size(); ++i)
        if (is_delimiter(word.text[i])) matches.emplace_back(i, i + 1);
      append_parts(result, word, joined(stretches_of(word.text.size(), matches, false), delimiters));
    }
    return result;
  };
}

PreTokenizer byte_level(const nlohmann::json& part) {
  const bool adds_space = flag_of(part, "add_prefix_space", true);
  const PreTokenizer cut = flag_of(part, "use_regex", true)
                               ? isolate_matches(kByteLevelWords)
                               : PreTokenizer([](std::vector<Word> words) { return words; });
  return [=, as_bytes = write_bytes()](std::vector<Word> words) {
    for (Word& word : words)
      if (adds_space && (word.text.empty() || word.text.front() != U' ')) word.text.insert(word.text.begin(), U' ');
    words = cut(std::move(words));
    return as_bytes(std::move(words));
  };
}

// SentencePiece's: a visible character stands for the space, and one is put before the text (Kudo, Richardson,
// arXiv:1808.06226).
PreTokenizer metaspace_pre_tokenizer(const nlohmann::json& part) {
  const std::u32string mark = decode_utf8(text_of(part, "replacement", "\u2581"));
  require(mark.size() == 1, ErrorKind::invalid_argument,
          "the tokenizer's replacement of spaces is no single character");
  // Older files say only whether a mark is put before the text.
  const std::string scheme =
      text_of(part, "prepend_scheme", flag_of(part, "add_prefix_space", true) ? "always" : "never");
  require(scheme == "always" || scheme == "first" || scheme == "never", ErrorKind::unsupported,
          "the tokenizer's prepend_scheme is '{}', expected always, first or never", scheme);
  const bool splits = flag_of(part, "split", true);
  const PreTokenizer cut =
      split_at([space = mark[0]](char32_t character) { return character == space; }, Delimiters::merged_with_next);
  return [=](std::vector<Word> words) {
    for (Word& word : words) {
      for (char32_t& character : word.text)
        if (character == U' ') character = mark[0];
      const bool prepends = scheme == "always" || (scheme == "first" && word.begins_text);
      if (prepends && !word.text.starts_with(mark)) word.text = mark + word.text;
    }
    return splits ? cut(std::move(words)) : words;
  };
}

PreTokenizer pre_tokenizer_sequence(const nlohmann::json& part, int depth) {
  require(depth < kMostNesting, ErrorKind::invalid_argument, "the tokenizer's pre_tokenizers are nested too deeply");
  std::vector<PreTokenizer> members;
  for (const nlohmann::json& member : part.at("pretokenizers"))
    members.push_back(make_pre_tokenizer(member, depth + 1));
  return in_turn(std::move(members));
}

}  // namespace

PreTokenizer isolate_matches(const std::string& expression) {
  return split(std::make_shared<const Pattern>(Pattern::regex(expression)), Delimiters::isolated, false);
}

PreTokenizer write_bytes() {
  return [](std::vector<Word> words) {
    for (Word& word : words) word.text = as_byte_characters(encode_utf8(word.text));
    return words;
  };
}

PreTokenizer in_turn(std::vector<PreTokenizer> members) {
  return [members = std::move(members)](std::vector<Word> words) {
    for (const PreTokenizer& member : members) {
      words = member(std::move(words));
      std::size_t characters = 0;
      for (const Word& word : words) characters += word.text.size();
      check_length(characters);
    }
    return words;
  };
}

PreTokenizer make_pre_tokenizer(const nlohmann::json& part, int depth) {
  if (part.is_null()) return [](std::vector<Word> words) { return words; };
  const std::string type = type_of(part, kPreTokenizer);
  if (type == "Sequence") return pre_tokenizer_sequence(part, depth);
  if (type == "ByteLevel") return byte_level(part);
  if (type == "Metaspace") return metaspace_pre_tokenizer(part);
  if (type == "WhitespaceSplit") return split_at(is_white_space, Delimiters::removed);
  if (type == "Whitespace")
    return split(std::make_shared<const Pattern>(Pattern::regex(kWordsAndMarks)), Delimiters::removed, true);
  if (type == "BertPreTokenizer")
    return in_turn({split_at(is_white_space, Delimiters::removed), split_at(is_punctuation, Delimiters::isolated)});
  if (type == "Punctuation") return split_at(is_punctuation, delimiters_of(text_of(part, "behavior", "Isolated")));
  if (type == "Digits")
    return split_at(is_number,
                    flag_of(part, "individual_digits", false) ? Delimiters::isolated : Delimiters::contiguous);
  if (type == "CharDelimiterSplit") {
    const std::u32string delimiter = decode_utf8(part.at("delimiter").get<std::string>());
    require(delimiter.size() == 1, ErrorKind::invalid_argument, "the tokenizer's delimiter is no single character");
    return split_at([character = delimiter[0]](char32_t c) { return c == character; }, Delimiters::removed);
  }
  if (type == "Split")
    return split(std::make_shared<const Pattern>(part.at("pattern")),
                 delimiters_of(part.at("behavior").get<std::string>()), flag_of(part, "invert", false));
  fail_unknown_part(type, kPreTokenizer);
}

}  // namespace tessera::text
