// Tokenizers of language models, from what a GGUF file says about them.
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tessera/tokenizer.h"
#include "text/byte_alphabet.h"
#include "text/pipeline.h"
#include "text/precompiled.h"
#include "text/split_rules.h"

namespace tessera::text {
namespace {

constexpr std::size_t kMostTokens = std::size_t{1} << 23;
constexpr std::size_t kMostTokenBytes = std::size_t{1} << 16;
constexpr char32_t kSpaceMark = U'\u2581';  // SentencePiece's sign for a space

void check_parts(const TokenizerParts& parts) {
  const std::size_t count = parts.tokens.size();
  require(count > 0 && count <= kMostTokens, ErrorKind::invalid_model, "the tokenizer has {} tokens, expected 1 to {}",
          count, kMostTokens);
  require(parts.merges.size() <= kMostTokens, ErrorKind::invalid_model,
          "the tokenizer has {} merges, expected at most {}", parts.merges.size(), kMostTokens);
  require(parts.types.empty() || parts.types.size() == count, ErrorKind::invalid_model,
          "the tokenizer has {} types of tokens for {} tokens", parts.types.size(), count);
  const bool needs_scores = parts.model == "llama" || parts.model == "t5";
  require(!needs_scores || parts.scores.size() == count, ErrorKind::invalid_model,
          "the tokenizer has {} scores for {} tokens", parts.scores.size(), count);
  const bool needs_merges = parts.model == "gpt2" || parts.model == "gemma4";
  require(!needs_merges || !parts.merges.empty(), ErrorKind::invalid_model,
          "the tokenizer's model '{}' joins tokens by merges, of which there are none", parts.model);
  for (std::size_t i = 0; i < parts.types.size(); ++i)
    require(parts.types[i] >= 1 && parts.types[i] <= 6, ErrorKind::invalid_model,
            "the type of token {} is {}, expected 1 to 6", i, parts.types[i]);
  const auto longest = std::ranges::max_element(parts.tokens, {}, &std::string::size);
  require(longest->size() <= kMostTokenBytes, ErrorKind::invalid_model,
          "the tokenizer has a token of {} bytes, expected at most {}", longest->size(), kMostTokenBytes);
  for (const auto& [role, id] : {std::pair{"bos", parts.bos},
                                 {"eos", parts.eos},
                                 {"eot", parts.eot},
                                 {"eom", parts.eom},
                                 {"unknown", parts.unknown},
                                 {"separator", parts.separator},
                                 {"padding", parts.padding},
                                 {"cls", parts.cls}})
    require(id < static_cast<std::int64_t>(count), ErrorKind::invalid_model,
            "the tokenizer's {} token has the number {}, beyond its {} tokens", role, id, count);
}

bool is_phi3(const std::string& name) {
  std::string lower;
  std::ranges::transform(name, std::back_inserter(lower), [](unsigned char c) { return std::tolower(c); });
  return lower.find("phi-3") != lower.npos || lower.find("phi3") != lower.npos;
}

// Control, unknown and user-defined tokens, which are recognised in a text before it is split.
std::vector<AddedToken> added_tokens(const TokenizerParts& parts) {
  std::vector<AddedToken> result;
  const bool takes_space = is_phi3(parts.name);
  for (std::size_t i = 0; i < parts.tokens.size(); ++i) {
    const TokenKind kind = kind_of(parts, i);
    const auto id = static_cast<std::int64_t>(i);
    const bool has_role = id == parts.bos || id == parts.eos || id == parts.eot || id == parts.eom;
    const bool special = kind == TokenKind::control || kind == TokenKind::unknown || (parts.types.empty() && has_role);
    if (!special && kind != TokenKind::user_defined) continue;
    if (parts.tokens[i].empty()) continue;
    AddedToken token{.text = parts.tokens[i], .id = id, .special = special};
    // Files do not say which tokens take the white space behind them: in Phi-3's tokenizer.json all do but these.
    token.takes_right_space =
        takes_space && token.text != "<unk>" && token.text != "<s>" && token.text != "<|endoftext|>";
    result.push_back(std::move(token));
  }
  return result;
}

// Without the spaces at both ends, and one where there are several.
std::u32string without_extra_spaces(const std::u32string& text) {
  std::u32string result;
  for (const char32_t character : text)
    if (character != U' ' || (!result.empty() && result.back() != U' ')) result.push_back(character);
  if (!result.empty() && result.back() == U' ') result.pop_back();
  return result;
}

Normalizer sentence_piece_normalizer(const TokenizerParts& parts, bool adds_space) {
  Normalizer table = [](std::u32string text) { return text; };
  if (!parts.precompiled_charsmap.empty()) table = make_precompiled(parts.precompiled_charsmap);
  return [table, adds_space, removes = parts.remove_extra_whitespaces](std::u32string text) {
    text = table(std::move(text));
    if (removes) text = without_extra_spaces(text);
    if (adds_space && !text.empty()) text.insert(text.begin(), U' ');
    std::ranges::replace(text, U' ', kSpaceMark);
    return text;
  };
}

// As "<0x0A>" or with a mark for each space.
std::string sentence_piece_bytes(std::string_view token) {
  if (const auto byte = byte_of_token(token)) return std::string(1, *byte);
  constexpr std::string_view kMark = "\u2581";
  std::string bytes;
  for (std::size_t i = 0; i < token.size();) {
    const bool is_mark = token.substr(i).starts_with(kMark);
    bytes.push_back(is_mark ? ' ' : token[i]);
    i += is_mark ? kMark.size() : 1;
  }
  return bytes;
}

// [first] text [last], each where the tokenizer adds it.
void frame_text(TokenizerPipeline& pipeline, const TokenizerParts& parts, bool adds_first, bool adds_last) {
  std::vector<FramePart>& frame = pipeline.frame.single;
  require(!parts.add_bos.value_or(false) || parts.bos >= 0, ErrorKind::invalid_model,
          "the tokenizer adds a token before each text, but names none");
  require(!parts.add_eos.value_or(false) || parts.eos >= 0, ErrorKind::invalid_model,
          "the tokenizer adds a token behind each text, but names none");
  if (parts.add_bos.value_or(adds_first) && parts.bos >= 0) frame.insert(frame.begin(), {-1, parts.bos, 0});
  if (parts.add_eos.value_or(adds_last) && parts.eos >= 0) frame.push_back({-1, parts.eos, 0});
}

void make_byte_level(TokenizerPipeline& pipeline, const TokenizerParts& parts) {
  SplitRules rules = split_rules(parts.pre);
  pipeline.model = make_byte_pairs(parts, rules.takes_whole_words, false);
  pipeline.normalizer = [](std::u32string text) { return text; };
  pipeline.pre_tokenizer = std::move(rules.pre_tokenizer);
  frame_text(pipeline, parts, rules.adds_bos, false);
}

void make_sentence_piece(TokenizerPipeline& pipeline, const TokenizerParts& parts) {
  const bool is_unigram = parts.model == "t5", is_gemma4 = parts.model == "gemma4";
  if (is_unigram) pipeline.model = make_unigram(parts);
  else if (is_gemma4) pipeline.model = make_byte_pairs(parts, false, true);
  else pipeline.model = make_scored_pairs(parts);
  const bool adds_space = parts.add_space_prefix.value_or(!is_gemma4);
  pipeline.normalizer = sentence_piece_normalizer(parts, adds_space);
  // Gemma 4's merges do not cross the ends of lines.
  if (is_gemma4) pipeline.pre_tokenizer = isolate_matches("[^\n]+|[\n]+");
  else pipeline.pre_tokenizer = [](std::vector<Word> words) { return words; };
  pipeline.pieces.drops_first_space = adds_space;
  frame_text(pipeline, parts, !is_unigram, is_unigram);
}

void make_bert(TokenizerPipeline& pipeline, const TokenizerParts& parts) {
  pipeline.model = make_word_pieces(parts);
  pipeline.normalizer = make_normalizer({{"type", "BertNormalizer"}});
  pipeline.pre_tokenizer = make_pre_tokenizer({{"type", "BertPreTokenizer"}});
  pipeline.decoder = make_decoder({{"type", "WordPiece"}});
  const std::int64_t first = parts.cls >= 0 ? parts.cls : parts.bos;
  const std::int64_t last = parts.separator >= 0 ? parts.separator : parts.eos;
  require(first >= 0 && last >= 0, ErrorKind::invalid_model,
          "the tokenizer names no tokens for the begin and the end of a text (cls, separator)");
  pipeline.frame = {{{-1, first, 0}, {0, 0, 0}, {-1, last, 0}},
                    {{-1, first, 0}, {0, 0, 0}, {-1, last, 0}, {1, 0, 1}, {-1, last, 1}}};
}

}  // namespace

TokenizerPipeline make_pipeline(const TokenizerParts& parts) {
  check_parts(parts);
  TokenizerPipeline result;
  if (parts.model == "gpt2") make_byte_level(result, parts);
  else if (parts.model == "llama" || parts.model == "gemma4" || parts.model == "t5") make_sentence_piece(result, parts);
  else if (parts.model == "bert") make_bert(result, parts);
  else
    fail(ErrorKind::unsupported, "the tokenizer's model is '{}', expected gpt2, llama, gemma4, t5 or bert",
         parts.model);
  result.added.emplace(added_tokens(parts), result.normalizer);
  if (parts.model != "bert") {
    // Added tokens stand for themselves.
    std::vector<bool> is_added(parts.tokens.size());
    for (std::size_t i = 0; i < is_added.size(); ++i)
      is_added[i] = result.added->contains(static_cast<std::int64_t>(i));
    const bool is_byte_level = parts.model == "gpt2";
    result.pieces.bytes = [is_added, is_byte_level](std::int64_t id, std::string_view token, bool) {
      if (is_added[static_cast<std::size_t>(id)]) return std::string(token);
      return is_byte_level ? bytes_of_characters(token) : sentence_piece_bytes(token);
    };
  }
  result.bos = parts.bos;
  result.eos = parts.eos;
  for (const std::int64_t id : {parts.eos, parts.eot, parts.eom}) result.add_end_of_generation(id);
  result.add_end_of_generation_by_name();
  if (parts.padding >= 0) {
    result.padding.id = parts.padding;
    result.padding.token = parts.tokens[static_cast<std::size_t>(parts.padding)];
  }
  return result;
}

}  // namespace tessera::text
