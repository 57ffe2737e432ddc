#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/error.h"

namespace tessera::text {
namespace {

utf8proc_category_t category(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

bool is_ascii_punctuation(char32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
}

constexpr std::array<std::pair<char32_t, char32_t>, 8> kIdeographs{{{0x4E00, 0x9FFF},
                                                                    {0x3400, 0x4DBF},
                                                                    {0x20000, 0x2A6DF},
                                                                    {0x2A700, 0x2B73F},
                                                                    {0x2B740, 0x2B81F},
                                                                    {0x2B920, 0x2CEAF},
                                                                    {0xF900, 0xFAFF},
                                                                    {0x2F800, 0x2FA1F}}};

// The beginning of a text that is not empty: a character, or as many bytes as could begin one.
struct Sequence {
  std::size_t bytes = 1;
  char32_t character = 0;
  bool is_whole = false;
  bool is_open = false;  // the text ends inside a character
};

// Table 3-7 of the Unicode Standard, "Well-Formed UTF-8 Byte Sequences".
Sequence first_sequence(std::string_view text) {
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte_at(0);
  if (first < 0x80) return {1, first, true, false};
  if (first < 0xC2 || first > 0xF4) return {};
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t character = first & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, 0, false, true};
    const unsigned least = i > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned most = i > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (byte_at(i) < least || byte_at(i) > most) return {i, 0, false, false};
    character = (character << 6) | (byte_at(i) & 0x3F);
  }
  return {length, character, true, false};
}

}  // namespace

std::u32string decode_utf8(std::string_view bytes) {
  std::u32string result;
  result.reserve(bytes.size());
  while (!bytes.empty()) {
    const Sequence next = first_sequence(bytes);
    result.push_back(next.is_whole ? next.character : U'\uFFFD');
    bytes.remove_prefix(next.bytes);
  }
  return result;
}

std::size_t incomplete_bytes(std::string_view bytes) {
  for (std::size_t count = std::min<std::size_t>(3, bytes.size()); count > 0; --count) {
    const Sequence tail = first_sequence(bytes.substr(bytes.size() - count));
    if (tail.is_open) return count;
  }
  return 0;
}

void append_utf8(std::string& out, char32_t character) {
  if (character < 0x80) {
    out.push_back(static_cast<char>(character));
    return;
  }
  std::array<utf8proc_uint8_t, 4> bytes;
  const utf8proc_ssize_t size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size));
}

std::string encode_utf8(std::u32string_view characters) {
  std::string result;
  result.reserve(characters.size());
  for (const char32_t character : characters) append_utf8(result, character);
  return result;
}

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x85 || category(c) == UTF8PROC_CATEGORY_ZS ||
         category(c) == UTF8PROC_CATEGORY_ZL || category(c) == UTF8PROC_CATEGORY_ZP;
}

bool is_punctuation(char32_t c) {
  return is_ascii_punctuation(c) || (category(c) >= UTF8PROC_CATEGORY_PC && category(c) <= UTF8PROC_CATEGORY_PO);
}

bool is_letter(char32_t c) {
  return category(c) >= UTF8PROC_CATEGORY_LU && category(c) <= UTF8PROC_CATEGORY_LO;
}

bool is_number(char32_t c) {
  return category(c) >= UTF8PROC_CATEGORY_ND && category(c) <= UTF8PROC_CATEGORY_NO;
}

bool is_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO;
}

bool is_nonspacing_mark(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_MN;
}

bool is_mark(char32_t c) {
  return category(c) >= UTF8PROC_CATEGORY_MN && category(c) <= UTF8PROC_CATEGORY_ME;
}

bool is_printable(char32_t c) {
  const utf8proc_category_t kind = category(c);
  const bool is_separator =
      kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP;
  return c == U' ' || (kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_CC && !is_separator);
}

bool is_cjk(char32_t c) {
  return std::ranges::any_of(kIdeographs, [c](const auto& block) { return c >= block.first && c <= block.second; });
}

std::u32string normalise(std::u32string_view text, NormalForm form) {
  const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0));
  const std::string bytes = encode_utf8(text);
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()),
                                             static_cast<utf8proc_ssize_t>(bytes.size()), &mapped, options);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  require(size >= 0, ErrorKind::failed, "a text of {} bytes cannot be normalised: {}", bytes.size(),
          utf8proc_errmsg(size));
  return decode_utf8({reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size)});
}

std::u32string lower_case(std::u32string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (const char32_t character : text) {
    // The only character whose lower case is two characters (SpecialCasing.txt of Unicode, without conditions).
    if (character == U'\u0130') result += U"i\u0307";
    else result.push_back(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))));
  }
  return result;
}

std::u32string upper_case(std::u32string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (const char32_t character : text) {
    if (character == U'\u00DF') result += U"SS";
    else result.push_back(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(character))));
  }
  return result;
}

}  // namespace tessera::text
