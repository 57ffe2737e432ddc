#include "text/normalizer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "text/json_part.h"
#include "text/pattern.h"
#include "text/precompiled.h"
#include "text/unicode.h"

namespace tessera::text {
namespace {

constexpr const char* kNormalizer = "normalizer";

// BERT's (https://github.com/google-research/bert, BasicTokenizer): drops control characters, makes white space plain,
// sets ideographs apart, strips accents and lowers the case.
Normalizer bert(const nlohmann::json& part) {
  const bool clean = flag_of(part, "clean_text", true), apart = flag_of(part, "handle_chinese_chars", true);
  const bool lowers = flag_of(part, "lowercase", true), strips = flag_of(part, "strip_accents", lowers);
  return [=](std::u32string text) {
    std::u32string kept;
    for (const char32_t character : text) {
      if (clean && (character == 0 || character == 0xFFFD || is_control(character))) continue;
      const char32_t plain = clean && is_white_space(character) ? U' ' : character;
      if (apart && is_cjk(plain)) kept += {U' ', plain, U' '};
      else kept.push_back(plain);
    }
    if (strips) {
      kept = normalise(kept, NormalForm::nfd);
      std::erase_if(kept, is_nonspacing_mark);
    }
    return lowers ? lower_case(kept) : kept;
  };
}

std::u32string stripped(std::u32string_view text, bool left, bool right) {
  std::size_t first = 0, last = text.size();
  while (left && first < last && is_white_space(text[first])) ++first;
  while (right && last > first && is_white_space(text[last - 1])) --last;
  return std::u32string(text.substr(first, last - first));
}

Normalizer replacement(const nlohmann::json& part) {
  auto pattern = std::make_shared<const Pattern>(part.at("pattern"));
  return [pattern, content = decode_utf8(part.at("content").get<std::string>())](std::u32string text) {
    std::u32string result;
    std::size_t done = 0;
    for (const auto& [first, last] : pattern->find(text)) {
      result.append(text, done, first - done).append(content);
      done = last;
      check_length(result.size());
    }
    return result.append(text, done);
  };
}

Normalizer normalizer_sequence(const nlohmann::json& part, int depth) {
  require(depth < kMostNesting, ErrorKind::invalid_argument, "the tokenizer's normalizers are nested too deeply");
  std::vector<Normalizer> members;
  for (const nlohmann::json& member : part.at("normalizers")) members.push_back(make_normalizer(member, depth + 1));
  return [members](std::u32string text) {
    for (const Normalizer& member : members) {
      text = member(std::move(text));
      check_length(text.size());
    }
    return text;
  };
}

std::optional<NormalForm> form_of(const std::string& type) {
  if (type == "NFC") return NormalForm::nfc;
  if (type == "NFD") return NormalForm::nfd;
  if (type == "NFKC") return NormalForm::nfkc;
  if (type == "NFKD") return NormalForm::nfkd;
  return std::nullopt;
}

}  // namespace

Normalizer make_normalizer(const nlohmann::json& part, int depth) {
  if (part.is_null()) return [](std::u32string text) { return text; };
  const std::string type = type_of(part, kNormalizer);
  if (type == "Sequence") return normalizer_sequence(part, depth);
  if (type == "BertNormalizer") return bert(part);
  if (type == "Precompiled") return make_precompiled(part);
  if (type == "Replace") return replacement(part);
  if (type == "Lowercase") return [](const std::u32string& text) { return lower_case(text); };
  if (const auto form = form_of(type))
    return [form = *form](const std::u32string& text) { return normalise(text, form); };
  if (type == "StripAccents") {
    return [](std::u32string text) {
      std::erase_if(text, is_mark);
      return text;
    };
  }
  if (type == "Strip") {
    return [left = flag_of(part, "strip_left", true), right = flag_of(part, "strip_right", true)](
               const std::u32string& text) { return stripped(text, left, right); };
  }
  if (type == "Prepend") {
    return [front = decode_utf8(part.at("prepend").get<std::string>())](const std::u32string& text) {
      return text.empty() ? text : front + text;
    };
  }
  fail_unknown_part(type, kNormalizer);
}

}  // namespace tessera::text
