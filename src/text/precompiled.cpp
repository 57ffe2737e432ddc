#include "text/precompiled.h"

#include <utf8proc.h>

#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/json_part.h"
#include "text/unicode.h"

namespace tessera::text {
namespace {

constexpr std::size_t kShortGrapheme = 6;  // bytes of a grapheme that is looked up whole

int value_of_digit(char digit) {
  if (digit >= 'A' && digit <= 'Z') return digit - 'A';
  if (digit >= 'a' && digit <= 'z') return digit - 'a' + 26;
  if (digit >= '0' && digit <= '9') return digit - '0' + 52;
  return digit == '+' ? 62 : digit == '/' ? 63 : -1;
}

// RFC 4648, section 4.
std::string from_base64(const std::string& text) {
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    const int value = value_of_digit(digit);
    require(value >= 0, ErrorKind::invalid_argument, "the tokenizer's precompiled_charsmap is not base64");
    bits = (bits << 6) | static_cast<unsigned>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>((bits >> count) & 0xFF));
  }
  return bytes;
}

// A trie of replaced texts as a double array (units of darts-clone, https://github.com/s-yata/darts-clone), and the
// replacements, each ended by a zero byte.
class CharacterMap {
 public:
  explicit CharacterMap(const std::string& bytes) {
    std::uint32_t size = 0;
    require(bytes.size() >= sizeof size, ErrorKind::invalid_argument,
            "the tokenizer's precompiled_charsmap has {} bytes, too few for its head", bytes.size());
    std::memcpy(&size, bytes.data(), sizeof size);
    require(size <= bytes.size() - sizeof size && size % sizeof(std::uint32_t) == 0, ErrorKind::invalid_argument,
            "the tokenizer's precompiled_charsmap states a trie of {} bytes in {}", size, bytes.size());
    units_.resize(size / sizeof(std::uint32_t));
    std::memcpy(units_.data(), bytes.data() + sizeof size, size);
    replacements_ = bytes.substr(sizeof size + size);
  }

  // The replacement of the shortest beginning of the text that has one, or null.
  const char* find(std::string_view text) const {
    std::size_t node = 0;
    if (units_.empty()) return nullptr;
    node ^= offset(units_[0]);
    for (const char byte : text) {
      const auto label = static_cast<unsigned char>(byte);
      if (label == 0) return nullptr;
      node ^= label;
      if (node >= units_.size() || (units_[node] & 0x800000FFU) != label) return nullptr;
      const bool has_value = ((units_[node] >> 8) & 1) != 0;
      node ^= offset(units_[node]);
      if (!has_value) continue;
      if (node >= units_.size()) return nullptr;
      const std::uint32_t at = units_[node] & 0x7FFFFFFFU;
      return at < replacements_.size() ? replacements_.c_str() + at : nullptr;
    }
    return nullptr;
  }

 private:
  static std::size_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200U) >> 6); }

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

std::u32string mapped(const CharacterMap& map, const std::u32string& text) {
  std::u32string result;
  const auto add = [&](std::u32string_view part) {
    const char* replacement = map.find(encode_utf8(part));
    result += replacement != nullptr ? decode_utf8(replacement) : std::u32string(part);
  };
  const auto add_grapheme = [&](std::u32string_view grapheme) {
    if (encode_utf8(grapheme).size() < kShortGrapheme) {
      const char* replacement = map.find(encode_utf8(grapheme));
      if (replacement != nullptr) {
        result += decode_utf8(replacement);
        return;
      }
    }
    for (std::size_t i = 0; i < grapheme.size(); ++i) add(grapheme.substr(i, 1));
  };
  std::size_t begin = 0;
  utf8proc_int32_t state = 0;
  for (std::size_t i = 1; i <= text.size(); ++i) {
    if (i < text.size() && !utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(text[i - 1]),
                                                             static_cast<utf8proc_int32_t>(text[i]), &state))
      continue;
    add_grapheme(std::u32string_view(text).substr(begin, i - begin));
    begin = i;
    check_length(result.size());
  }
  return result;
}

}  // namespace

Normalizer make_precompiled(const nlohmann::json& part) {
  if (!has(part, "precompiled_charsmap")) return [](std::u32string text) { return text; };
  return make_precompiled(from_base64(part.at("precompiled_charsmap").get<std::string>()));
}

Normalizer make_precompiled(const std::string& bytes) {
  auto map = std::make_shared<const CharacterMap>(bytes);
  return [map](const std::u32string& text) { return mapped(*map, text); };
}

}  // namespace tessera::text
