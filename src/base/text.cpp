#include "base/text.h"

#include <fmt/format.h>

#include <cstdint>

namespace tessera::base {
namespace {

constexpr std::size_t kMostNameBytes = 100;

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// The character at the start of `text` and its length in bytes; length 0 if the text does not start with valid UTF-8
// (RFC 3629).
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;
};

Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!continues(text[i])) return {};
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return code < smallest[bytes] || code > 0x10FFFF || surrogate ? Character{} : Character{code, bytes};
}

bool is_harmless(std::uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return false;  // C0, DEL, C1
  if (code >= 0x200E && code <= 0x200F) return false;              // direction marks
  if ((code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069))
    return false;  // separators, embeddings, overrides
  return code != 0x061C && code != 0xFEFF;
}

}  // namespace

std::string shortened(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  std::size_t head = most_bytes * 2 / 3, tail = text.size() - (most_bytes - head);
  while (head > 0 && continues(text[head])) --head;
  while (tail < text.size() && continues(text[tail])) ++tail;
  return std::string(text.substr(0, head)) + "…" + std::string(text.substr(tail));
}

std::string shown(std::string_view name) {
  return shortened(name, kMostNameBytes);
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::size_t bytes = character.bytes == 0 ? 1 : character.bytes;
    if (character.bytes > 0 && is_harmless(character.code)) {
      result += text.substr(0, bytes);
    } else if (character.code > 0xFF) {
      result += fmt::format("\\u{:04X}", character.code);
    } else {
      for (const char byte : text.substr(0, bytes))
        result += fmt::format("\\x{:02X}", static_cast<unsigned char>(byte));
    }
    text.remove_prefix(bytes);
  }
  return result;
}

}  // namespace tessera::base
