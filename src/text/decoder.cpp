#include "text/decoder.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "text/byte_alphabet.h"
#include "text/json_part.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace tessera::text {
namespace {

constexpr const char* kDecoder = "decoder";
using Tokens = std::vector<std::string>;

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  if (what.empty()) return;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

// Bytes that are no UTF-8 become U+FFFD.
std::string as_utf8(std::string_view bytes) {
  return encode_utf8(decode_utf8(bytes));
}

// Takes away the spaces that English does not write before punctuation and contractions.
void clean_up(std::string& text) {
  for (const auto& [from, to] : {std::pair{" .", "."},
                                 {" ?", "?"},
                                 {" !", "!"},
                                 {" ,", ","},
                                 {" ' ", "'"},
                                 {" n't", "n't"},
                                 {" 'm", "'m"},
                                 {" do not", " don't"},
                                 {" 's", "'s"},
                                 {" 've", "'ve"},
                                 {" 're", "'re"}})
    replace_all(text, from, to);
}

Decoder word_piece(const nlohmann::json& part) {
  return [prefix = text_of(part, "prefix", "##"), cleans = flag_of(part, "cleanup", true)](Tokens tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i].starts_with(prefix)) tokens[i].erase(0, prefix.size());
      else if (i > 0) tokens[i].insert(0, " ");
      if (cleans) clean_up(tokens[i]);
    }
    return tokens;
  };
}

Tokens byte_level(const Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += bytes_of_characters(token);
  return {as_utf8(bytes)};
}

Decoder metaspace_decoder(const nlohmann::json& part) {
  const std::string scheme =
      text_of(part, "prepend_scheme", flag_of(part, "add_prefix_space", true) ? "always" : "never");
  return [mark = text_of(part, "replacement", "\u2581"), drops_first = scheme != "never"](Tokens tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i == 0 && drops_first && tokens[i].starts_with(mark)) tokens[i].erase(0, mark.size());
      replace_all(tokens[i], mark, " ");
    }
    return tokens;
  };
}

// Runs of byte tokens become characters, or one U+FFFD for each byte where they are no UTF-8.
Tokens byte_fallback(const Tokens& tokens) {
  Tokens result;
  std::string bytes;
  const auto end_run = [&] {
    if (bytes.empty()) return;
    const std::u32string characters = decode_utf8(bytes);
    std::string text = encode_utf8(characters);
    if (text != bytes) {
      text.clear();
      for (std::size_t i = 0; i < bytes.size(); ++i) append_utf8(text, U'\uFFFD');
    }
    result.push_back(std::move(text));
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    if (const std::optional<char> byte = byte_of_token(token)) {
      bytes.push_back(*byte);
      continue;
    }
    end_run();
    result.push_back(token);
  }
  end_run();
  return result;
}

Tokens fuse(const Tokens& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return {text};
}

Decoder strip(const nlohmann::json& part) {
  const std::string content = part.at("content").get<std::string>();
  const std::int64_t start = whole_number(part, "start", 0), stop = whole_number(part, "stop", 0);
  return [=](Tokens tokens) {
    for (std::string& token : tokens) {
      for (std::int64_t i = 0; i < start && !content.empty() && token.starts_with(content); ++i)
        token.erase(0, content.size());
      for (std::int64_t i = 0; i < stop && !content.empty() && token.ends_with(content); ++i)
        token.erase(token.size() - content.size());
    }
    return tokens;
  };
}

Decoder byte_pairs(const nlohmann::json& part) {
  return [suffix = text_of(part, "suffix", "</w>")](Tokens tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], suffix, i + 1 < tokens.size() ? " " : "");
    return tokens;
  };
}

Decoder decoder_sequence(const nlohmann::json& part, int depth) {
  require(depth < kMostNesting, ErrorKind::invalid_argument, "the tokenizer's decoders are nested too deeply");
  std::vector<Decoder> members;
  for (const nlohmann::json& member : part.at("decoders")) members.push_back(make_decoder(member, depth + 1));
  return [members](Tokens tokens) {
    for (const Decoder& member : members) tokens = member(std::move(tokens));
    return tokens;
  };
}

// Adds one member of a sequence to what the members before it do. False where it does not work token by token.
bool add_member(PieceDecoder& pieces, std::vector<std::function<void(std::string&, bool)>>& steps, bool& fused,
                const nlohmann::json& part) {
  const std::string type = type_of(part, kDecoder);
  if (type == "Fuse") return fused = true;
  if (type == "Strip") {
    const std::int64_t start = whole_number(part, "start", 0);
    pieces.drops_first_space = start == 1;
    return fused && start <= 1 && whole_number(part, "stop", 0) == 0 && part.at("content") == " ";
  }
  if (fused || pieces.groups_bytes) return false;
  if (type == "ByteFallback") return pieces.groups_bytes = true;
  if (type == "Replace") {
    const nlohmann::json& pattern = part.at("pattern");
    if (!pattern.is_object() || !pattern.contains("String")) return false;
    steps.emplace_back([from = pattern.at("String").get<std::string>(), to = part.at("content").get<std::string>()](
                           std::string& token, bool) { replace_all(token, from, to); });
    return true;
  }
  if (type != "Metaspace") return false;
  const std::string scheme =
      text_of(part, "prepend_scheme", flag_of(part, "add_prefix_space", true) ? "always" : "never");
  steps.emplace_back([mark = text_of(part, "replacement", "\u2581"), drops_first = scheme != "never"](
                         std::string& token, bool is_first) {
    if (is_first && drops_first && token.starts_with(mark)) token.erase(0, mark.size());
    replace_all(token, mark, " ");
  });
  return true;
}

}  // namespace

// "<0x0A>": the byte 10.
std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, code] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  return code == std::errc() && end == token.data() + 5 ? std::optional(static_cast<char>(value)) : std::nullopt;
}

PieceDecoder make_piece_decoder(const nlohmann::json& part) {
  if (part.is_null()) return {};
  if (type_of(part, kDecoder) == "ByteLevel")
    return {.bytes = [](std::int64_t, std::string_view token, bool) { return bytes_of_characters(token); }};
  PieceDecoder pieces;
  std::vector<std::function<void(std::string&, bool)>> steps;
  bool fused = false;
  const auto add = [&](const nlohmann::json& member) { return add_member(pieces, steps, fused, member); };
  const bool all = type_of(part, kDecoder) == "Sequence" ? std::ranges::all_of(part.at("decoders"), add) : add(part);
  if (!all) return {};
  pieces.bytes = [steps](std::int64_t, std::string_view token, bool is_first) {
    std::string bytes(token);
    for (const auto& step : steps) step(bytes, is_first);
    return bytes;
  };
  return pieces;
}

Decoder make_decoder(const nlohmann::json& part, int depth) {
  if (part.is_null()) {
    return [](Tokens tokens) {
      for (std::size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, " ");
      return tokens;
    };
  }
  const std::string type = type_of(part, kDecoder);
  if (type == "Sequence") return decoder_sequence(part, depth);
  if (type == "WordPiece") return word_piece(part);
  if (type == "ByteLevel") return byte_level;
  if (type == "Metaspace") return metaspace_decoder(part);
  if (type == "ByteFallback") return byte_fallback;
  if (type == "Fuse") return fuse;
  if (type == "Strip") return strip(part);
  if (type == "BPEDecoder") return byte_pairs(part);
  if (type == "Replace") {
    const nlohmann::json& pattern = part.at("pattern");
    require(pattern.is_object() && pattern.contains("String"), ErrorKind::unsupported,
            "the tokenizer's decoder replaces by a regular expression, which is not supported");
    return [from = pattern.at("String").get<std::string>(), to = part.at("content").get<std::string>()](Tokens tokens) {
      for (std::string& token : tokens) replace_all(token, from, to);
      return tokens;
    };
  }
  fail_unknown_part(type, kDecoder);
}

}  // namespace tessera::text
